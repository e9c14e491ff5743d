"""The library through Django's ORM: `use_django.py`, run beside the project. Prints what it read through it as JSON."""

import datetime
import json
import os
from decimal import Decimal

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

import django  # noqa: E402  (finds its settings through the line above)

django.setup()

from django.contrib.auth import authenticate  # noqa: E402  (models can be had only after the line above)
from django.contrib.auth.models import Permission, User  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.db import IntegrityError  # noqa: E402
from django.db.models import Avg, Case, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Value, When  # noqa: E402
from django.db.models.functions import Concat, ExtractYear, Length, Lower, TruncMonth, Upper  # noqa: E402
from django_mongodb_backend import transaction  # noqa: E402
from library.models import Author, Book, Loan, Review, Subject  # noqa: E402


def at(year, month, day):
    return datetime.datetime(year, month, day, 12, tzinfo=datetime.timezone.utc)


def filled():
    """Three authors, one of whom the migration made, and five books."""
    ada = Author.objects.create(name="Ada Lovelace", born=datetime.date(1815, 12, 10))
    mary = Author.objects.get(name="Mary Somerville")
    emmy = Author.objects.create(name="Emmy Noether", born=datetime.date(1882, 3, 23), country="DE")
    numbers, skies, engines = Subject.objects.bulk_create([Subject(name=name) for name in ("numbers", "skies", "engines")])
    praise = Review(stars=5, words="a first")
    notes = Book.objects.create(
        title="Notes", author=ada, price=Decimal("12.50"), pages=66, published=at(1843, 8, 1), tags=["first", "long"], best=praise,
        reviews=[praise, Review(stars=3)], details={"language": "en", "letters": {"from": "A", "to": "G"}},
    )
    notes.subjects.add(numbers, engines)
    connexion = Book.objects.create(title="Connexion", author=mary, price=Decimal("20.00"), pages=458, published=at(1834, 8, 20))
    connexion.subjects.add(skies)
    heavens = Book.objects.create(title="Heavens", author=mary, price=Decimal("35.25"), pages=621, published=at(1831, 11, 2), tags=["long"])
    heavens.subjects.add(skies, numbers)
    ideals = Book.objects.create(title="Ideals", author=emmy, price=Decimal("8.00"), pages=42, published=at(1921, 9, 5), details={"language": "de"})
    ideals.subjects.set([numbers])
    Book.objects.create(title="Invariants", author=emmy, price=Decimal("9.75"), pages=50, published=at(1918, 9, 6), best=Review(stars=4))


def filtered():
    """Titles that filters find, over relations and into what is embedded."""
    def titles(query):
        return list(query.order_by("title").values_list("title", flat=True))

    borrowed = Book.objects.filter(subjects=OuterRef("pk"), pages__gt=500)
    return {
        "by author": titles(Book.objects.filter(author__name__startswith="Mary")),
        "excluded": titles(Book.objects.exclude(author__country="GB")),
        "either": titles(Book.objects.filter(Q(price__lt=9) | Q(title__icontains="HEAV"))),
        "in range": titles(Book.objects.filter(published__range=(at(1830, 1, 1), at(1850, 1, 1)), price__gte=Decimal("20"))),
        "of year": titles(Book.objects.filter(published__year=1918)),
        "tagged": titles(Book.objects.filter(tags__contains=["long"])),
        "embedded": titles(Book.objects.filter(best__stars__gte=5)),
        "reviewed": titles(Book.objects.filter(reviews__stars=3)),
        "json": titles(Book.objects.filter(details__letters__to="G")),
        "no language": titles(Book.objects.filter(details__language__isnull=True)),
        "expression": titles(Book.objects.filter(pages__gt=F("price") * 10)),
        "pattern": titles(Book.objects.filter(title__regex=r"^I[a-d]")),
        "many": titles(Book.objects.filter(subjects__name__in=["numbers", "engines"]).distinct()),
        "exists": list(Subject.objects.filter(Exists(borrowed)).order_by("name").values_list("name", flat=True)),
        "subquery": titles(Book.objects.filter(author__in=Author.objects.filter(born__year__lt=1800))),
    }


def annotated():
    """What is counted, summed and made of single books."""
    latest = Book.objects.filter(author=OuterRef("pk")).order_by("-published").values("title")[:1]
    monthly = Book.objects.annotate(month=TruncMonth("published")).values("month").annotate(n=Count("id")).order_by("month")
    sized = Book.objects.annotate(size=Case(When(pages__gt=400, then=Value("large")), default=Value("small")))
    names = Author.objects.annotate(label=Concat(Upper("country"), Value(": "), Lower("name")), letters=Length("name"))
    every = Book.objects.filter(pages__lt=45).union(Book.objects.filter(pages__gt=600))
    whole = Book.objects.aggregate(mean=Avg("pages"), most=Max("price"), all=Sum("price"), authors=Count("author", distinct=True))
    return {
        "whole": {name: str(value) for name, value in whole.items()},
        "by author": list(Author.objects.annotate(n=Count("books"), pages=Sum("books__pages")).order_by("-pages").values_list("name", "n", "pages")),
        "having": list(Subject.objects.annotate(n=Count("books")).filter(n__gt=2).values_list("name", "n")),
        "latest": list(Author.objects.annotate(latest=Subquery(latest)).order_by("name").values_list("latest", flat=True)),
        "months": [(each["month"].strftime("%Y-%m"), each["n"]) for each in monthly],
        "years": list(Book.objects.annotate(year=ExtractYear("published")).order_by("-year").values_list("year", flat=True)[1:3]),
        "sized": list(sized.values("size").annotate(n=Count("id")).order_by("size").values_list("size", "n")),
        "names": list(names.order_by("letters", "name").values_list("label", "letters")),
        "union": sorted(book.title for book in every),
        "joined": [(book.title, book.author.name) for book in Book.objects.select_related("author").order_by("author__born", "-title")],
        "fetched": {
            author.name: sorted(book.title for book in author.books.all())
            for author in Author.objects.prefetch_related("books").filter(country="GB")
        },
        "raw": [each.title for each in Book.objects.raw_aggregate([{"$match": {"pages": {"$gt": 100}}}, {"$sort": {"title": 1}}])],
    }


def changed():
    """What updates leave, alone and in transactions."""
    try:
        Book.objects.create(title="Notes", author=Author.objects.get(name="Ada Lovelace"), price=1, published=at(2000, 1, 1))
        taken = False
    except IntegrityError:
        taken = True
    updated = Book.objects.filter(pages__gt=400).update(price=F("price") + 1, tags=["thick"])
    _, created = Subject.objects.get_or_create(name="numbers")
    _, made = Author.objects.update_or_create(name="Sofia Kovalevskaya", defaults={"country": "RU"})
    with transaction.atomic():
        Author.objects.filter(name="Emmy Noether").update(country="US")
    try:
        with transaction.atomic():
            Author.objects.all().delete()
            inside = Author.objects.count()
            raise ValueError("taken back")
    except ValueError:
        pass
    return {
        "taken": taken,
        "updated": updated,
        "made": (created, made),
        "inside": inside,
        "countries": list(Author.objects.order_by("name").values_list("name", "country")),
    }


def used():
    """A user with permissions and loans, and a session."""
    user = User.objects.create_user("grace", "grace@example.com", "a passphrase")
    user.user_permissions.add(Permission.objects.get(codename="add_loan"))
    Loan.objects.bulk_create([Loan(book=book, reader=user, weeks=3) for book in Book.objects.filter(author__country="GB")])
    session = SessionStore()
    session["basket"] = [1, 2]
    session.create()
    return {
        "logged in": authenticate(username="grace", password="a passphrase").email,
        "refused": authenticate(username="grace", password="another") is None,
        "may": User.objects.get(username="grace").has_perm("library.add_loan"),
        "loans": Loan.objects.filter(reader__username="grace", book__subjects__name="skies").aggregate(weeks=Sum("weeks"))["weeks"],
        "basket": SessionStore(session_key=session.session_key)["basket"],
    }


def main():
    filled()
    said = {"filtered": filtered(), "annotated": annotated(), "changed": changed(), "used": used()}
    User.objects.all().delete()
    said["deleted"] = Author.objects.filter(name="Mary Somerville").delete()[1]
    print(json.dumps(said))


if __name__ == "__main__":
    main()
