"""A bookshop in MongoEngine: `use_mongoengine.py URI DATABASE`. Prints what it read through it as JSON."""

import datetime
import json
import sys

from mongoengine import (
    CASCADE,
    PULL,
    DateTimeField,
    Decimal128Field,
    Document,
    EmailField,
    EmbeddedDocument,
    EmbeddedDocumentField,
    FileField,
    IntField,
    ListField,
    NotUniqueError,
    PointField,
    Q,
    ReferenceField,
    SequenceField,
    StringField,
    connect,
)
from mongoengine.context_managers import query_counter
from pymongo.errors import OperationFailure


class Address(EmbeddedDocument):
    street = StringField()
    city = StringField()


class Person(Document):
    name = StringField(required=True)
    email = EmailField(unique=True)
    address = EmbeddedDocumentField(Address)
    born = DateTimeField()
    meta = {
        "collection": "people",
        "allow_inheritance": True,
        "indexes": ["address.city", {"fields": ["-born"], "sparse": True}],
    }


class Author(Person):
    pen_name = StringField()


class Book(Document):
    number = SequenceField(primary_key=True)
    title = StringField()
    author = ReferenceField(Author, reverse_delete_rule=CASCADE)
    readers = ListField(ReferenceField(Person, reverse_delete_rule=PULL))
    subjects = ListField(StringField())
    price = Decimal128Field()
    sold = IntField(default=0)
    shop = PointField()
    cover = FileField()
    meta = {"collection": "books", "indexes": [{"fields": ["$title"]}, ("author", "-price")]}


def filled():
    """Two authors, a reader and four books of theirs."""
    ada = Author(name="Ada", email="ada@example.com", pen_name="A. L.", born=datetime.datetime(1815, 12, 10)).save()
    mary = Author(name="Mary", email="mary@example.com", address=Address(street="Main", city="Jedburgh")).save()
    carl = Person(name="Carl", email="carl@example.com", address=Address(city="Brunswick")).save()
    Book(title="Notes on the engine", author=ada, subjects=["engines", "numbers"], price="12.50", shop=[13.4, 52.5]).save()
    Book(title="Poetical science", author=ada, subjects=["poems"], price="7.25", shop=[2.35, 48.85]).save()
    Book(title="The connexion of sciences", author=mary, subjects=["physics", "numbers"], price="20.00", sold=4).save()
    Book(title="Molecular science", author=mary, readers=[carl, ada], price="31.10", shop=[13.5, 52.4]).save()
    return ada, mary, carl


def asked(ada):
    """What queries find."""
    try:
        Person(name="Another", email="ada@example.com").save()
        taken = False
    except NotUniqueError:
        taken = True
    near = Book.objects(shop__near=[13.4, 52.5], shop__max_distance=50_000)
    found = Book.objects(Q(price__lt=10) | Q(title__icontains="SCIENCES"))
    return {
        "taken": taken,
        "people": [type(person).__name__ for person in Person.objects.order_by("name")],
        "authors": Author.objects.count(),
        "by city": [person.name for person in Person.objects(address__city__in=["Brunswick", "Jedburgh"]).order_by("-name")],
        "of ada": [book.title for book in Book.objects(author=ada).order_by("-price").only("title")],
        "either": sorted(book.number for book in found),
        "two subjects": [book.number for book in Book.objects(subjects__size=2).order_by("number")],
        "near": [book.number for book in near],
        "text": [book.number for book in Book.objects.search_text("engine").order_by("$text_score")],
        "cities": sorted(Person.objects.distinct("address.city")),
        "reader": Book.objects(readers__size=2).select_related()[0].readers[0].name,
    }


def aggregated():
    """What the queryset's own sums and a pipeline make."""
    numbers = Book.objects(subjects="numbers")
    pipeline = [
        {"$unwind": "$subjects"},
        {"$group": {"_id": "$subjects", "books": {"$sum": 1}}},
        {"$sort": {"books": -1, "_id": 1}},
    ]
    return {
        "sum": str(numbers.sum("price")),
        "average": numbers.average("sold"),
        "frequencies": [(each["_id"], each["books"]) for each in Book.objects(subjects__exists=True).aggregate(pipeline)],
    }


def changed(ada):
    """What updates leave."""
    Book.objects(number=1).update_one(inc__sold=3, push__subjects="looms")
    sold = Book.objects(number=2).modify(new=True, inc__sold=10, set__title="Poetry").sold
    new = Book.objects(title="Tides").upsert_one(set__price="5.00", set_on_insert__number=50)
    many = Book.objects(sold__gt=2).update(set__shop=[0.5, 0.5], full_result=True)
    first = Book.objects.get(number=1)
    first.cover.put(b"png" * 200_000, content_type="image/png")
    first.save()
    cover = Book.objects.get(number=1).cover
    return {
        "subjects": first.subjects,
        "sold": sold,
        "upserted": new.number,
        "many": (many.matched_count, many.modified_count),
        "cover": (len(cover.read()), cover.content_type),
        "indexes": Book.compare_indexes(),
    }


def counted():
    """How many operations MongoEngine counts, which it does by the profiler, before and behind two queries."""
    with query_counter() as operations:
        before = int(operations)
        Book.objects(number=1).first()
        list(Book.objects)
        return (before, int(operations))


def refused():
    """The answer to a map-reduce, which is JavaScript."""
    try:
        Book.objects.item_frequencies("subjects")
        return None
    except OperationFailure as error:
        return (error.code, str(error.details["errmsg"]))


def main(uri, name):
    connect(db=name, host=uri, uuidRepresentation="standard")
    ada, mary, carl = filled()
    said = {"asked": asked(ada), "aggregated": aggregated(), "changed": changed(ada), "counted": counted(), "refused": refused()}
    carl.delete()
    said["readers left"] = [reader.name for reader in Book.objects.get(title="Molecular science").readers]
    mary.delete()
    said["left"] = [book.number for book in Book.objects.order_by("number")]
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
