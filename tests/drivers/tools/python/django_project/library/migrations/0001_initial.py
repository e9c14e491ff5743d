"""The first collections."""

import django.db.models.deletion
import django_mongodb_backend.fields
import django_mongodb_backend.models
import library.models
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel("Author", [
            ("id", django_mongodb_backend.fields.ObjectIdAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=100)),
            ("birthday", models.DateField(null=True)),
        ]),
        migrations.CreateModel("Subject", [
            ("id", django_mongodb_backend.fields.ObjectIdAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=40, unique=True)),
        ]),
        # Embedded models have no collection; migrations name them because fields refer to them.
        migrations.CreateModel("Review", [
            ("stars", models.IntegerField()),
            ("words", models.CharField(blank=True, max_length=200)),
        ], bases=(django_mongodb_backend.models.EmbeddedModel,)),
        migrations.CreateModel("Book", [
            ("id", django_mongodb_backend.fields.ObjectIdAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("title", models.CharField(max_length=200)),
            ("author", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="books", to="library.author")),
            ("subjects", models.ManyToManyField(related_name="books", to="library.subject")),
            ("price", models.DecimalField(decimal_places=2, max_digits=8)),
            ("pages", models.IntegerField(default=0)),
            ("published", models.DateTimeField()),
            ("tags", django_mongodb_backend.fields.ArrayField(base_field=models.CharField(max_length=20), default=list, size=None)),
            ("details", models.JSONField(default=dict)),
            ("best", django_mongodb_backend.fields.EmbeddedModelField(library.models.Review, null=True)),
            ("reviews", django_mongodb_backend.fields.EmbeddedModelArrayField(library.models.Review, default=list)),
        ]),
        migrations.CreateModel("Borrowing", [
            ("id", django_mongodb_backend.fields.ObjectIdAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("book", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="library.book")),
            ("reader", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ("weeks", models.IntegerField()),
        ]),
        migrations.AddIndex("book", models.Index(fields=["pages"], name="by_pages")),
    ]
