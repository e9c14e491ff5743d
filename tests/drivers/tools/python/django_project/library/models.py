"""Authors, subjects, books with embedded reviews, and loans."""

from django.db import models
from django_mongodb_backend.fields import ArrayField, EmbeddedModelArrayField, EmbeddedModelField
from django_mongodb_backend.managers import MongoManager
from django_mongodb_backend.models import EmbeddedModel


class Author(models.Model):
    name = models.CharField(max_length=100)
    born = models.DateField(null=True)
    country = models.CharField(max_length=2, default="GB")


class Subject(models.Model):
    name = models.CharField(max_length=40, unique=True)


class Review(EmbeddedModel):
    stars = models.IntegerField()
    words = models.CharField(max_length=200, blank=True)


class Book(models.Model):
    title = models.CharField(max_length=200)
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    subjects = models.ManyToManyField(Subject, related_name="books")
    price = models.DecimalField(max_digits=8, decimal_places=2)
    pages = models.IntegerField(default=0)
    published = models.DateTimeField()
    tags = ArrayField(models.CharField(max_length=20), default=list)
    details = models.JSONField(default=dict)
    best = EmbeddedModelField(Review, null=True)
    reviews = EmbeddedModelArrayField(Review, default=list)
    objects = MongoManager()

    class Meta:
        indexes = [models.Index(fields=["author", "-published"], name="by_author")]
        constraints = [models.UniqueConstraint(fields=["title", "author"], name="one_title")]


class Loan(models.Model):
    book = models.ForeignKey(Book, models.PROTECT)
    reader = models.ForeignKey("auth.User", models.CASCADE)
    weeks = models.IntegerField()
