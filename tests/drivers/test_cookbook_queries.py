"""The recipes of docs/cookbook/queries.md: each request gives what a plain program makes of the same documents, and its page shows its
first results and its plan. What is right is said here, by a function of the documents for each heading.
"""

import datetime
import itertools
import json
import math
import re
import unicodedata

import pytest

import cookbook
import cookbook_data
from cookbook_data import distance

PAGE = cookbook.FOLDER / "queries.md"
# What reads the whole collection, though there is an index: nearly all of it would be read by its keys.
SCANS = {"A remainder", "None of a list"}
EXPECTED = {}
ZURICH = [8.55, 47.36667]


def recipe(title):
    def kept(function):
        EXPECTED[title] = function
        return function
    return kept


def bare(documents, *fields):
    return [{field: document[field] for field in fields if field in document} for document in documents]


def only(documents, *fields):
    return bare(documents, "_id", *fields)


def of(documents, **fields):
    return [document for document in documents if all(document.get(field) == value for field, value in fields.items())]


def by(documents, *fields):
    """In the order of fields, of which one that begins with `-` goes backwards."""
    for field in reversed(fields):
        documents = sorted(documents, key=lambda document: document[field.lstrip("-")], reverse=field.startswith("-"))
    return documents


def titles(films):
    return [film for film in films if isinstance(film["title"], str)]


def sold(film):
    return film["gross"]["world"] or 0


def score(film, name):
    return next((review["score"] for review in film["reviews"] if review["by"] == name), -1)


def votes(film):
    return max((review.get("votes", 0) for review in film["reviews"]), default=0)


@recipe("One document by its key")
def _(data):
    return only(of(data["countries"], iso3="DEU"), "name", "capital", "population")


@recipe("The first of many")
def _(data):
    return only(by(of(data["cities"], country="JP"), "-population")[:5], "name", "population")


@recipe("A range")
def _(data):
    return only(by([city for city in data["cities"] if 10_000_000 <= city["population"] < 15_000_000], "-population"), "name", "population")


@recipe("The next page")
def _(data):
    ranked = by(of(data["cities"], country="JP"), "-population")
    return only([city for city in ranked if city["population"] < 1_391_291][:5], "name", "population")


@recipe("The next page where sizes are equal")
def _(data):
    ranked = by(of(data["cities"], country="JP"), "-population", "_id")
    seen = [city["_id"] for city in ranked].index(1_857_550)
    return only(ranked[seen + 1:seen + 6], "name", "population")


@recipe("A page by its number")
def _(data):
    return only(by(of(data["countries"], continent="AF"), "-population")[10:15], "name", "population")


@recipe("Any of a list, in order")
def _(data):
    return only(by([city for city in data["cities"] if city["country"] in ("NO", "SE", "FI", "DK")], "-population")[:5], "name", "country", "population")


@recipe("None of a list")
def _(data):
    return only([land for land in data["countries"] if land["continent"] in ("OC", "SA", "AN") and land["population"] >= 10_000_000],
                "name", "continent")


@recipe("What begins with")
def _(data):
    return bare(by([film for film in titles(data["films"]) if film["title"].startswith("Star Trek")], "title"), "title")


@recipe("What contains, without case")
def _(data):
    return bare(by([film for film in titles(data["films"]) if "dragon" in film["title"].lower()], "title"), "title")


@recipe("Without case and accents")
def _(data):
    def letters(name):
        return "".join(part for part in unicodedata.normalize("NFD", name) if not unicodedata.combining(part)).lower()

    return only([city for city in data["cities"] if letters(city["name"]) == "sao paulo"], "name", "country")


@recipe("Numbers inside of strings")
def _(data):
    def numbers(land):
        return [int(digits) for digits in re.findall(r"\d+", land["phone"])] or [0]

    return bare(sorted((land for land in data["countries"] if 40 <= numbers(land)[0] < 50),
                       key=lambda land: (numbers(land), land["_id"])), "phone", "name")


@recipe("One value of an array")
def _(data):
    return only([city for city in data["cities"] if "Москва" in city["names"]], "name", "country")


@recipe("All of these values")
def _(data):
    return only([land for land in data["countries"] if {"fr", "en"} <= set(land["languages"])], "name")


@recipe("Any of these values")
def _(data):
    return only([land for land in data["countries"] if {"CH", "LI"} & set(land["neighbours"])], "name")


@recipe("A whole array")
def _(data):
    return only(of(data["countries"], languages=["de"]), "name")


@recipe("Arrays of a length")
def _(data):
    return only([land for land in of(data["countries"], continent="AF") if len(land["neighbours"]) == 7], "name", "neighbours")


@recipe("One element that fulfils all")
def _(data):
    return only([film for film in data["films"] if score(film, "IMDB") >= 9], "title")


@recipe("A field of any element")
def _(data):
    return [{"_id": film["_id"], "title": film["title"], "reviews": bare(film["reviews"], "votes")} for film in data["films"] if votes(film) >= 400_000]


@recipe("Sorted by an array")
def _(data):
    return bare(sorted(data["films"], key=votes, reverse=True)[:5], "title")


@recipe("A field of an embedded document")
def _(data):
    return [{"title": film["title"], "gross": {"world": sold(film)}}
            for film in sorted(data["films"], key=sold, reverse=True) if sold(film) >= 1_000_000_000]


@recipe("A whole embedded document")
def _(data):
    return only([film for film in of(data["films"], director="Stanley Kubrick") if tuple(film["gross"].values()) == (44_017_374, 44_017_374)], "title")


@recipe("Null or missing")
def _(data):
    return sum(film.get("dvd") is None for film in data["films"])


@recipe("Missing")
def _(data):
    return sum("dvd" not in film for film in data["films"])


@recipe("Null itself")
def _(data):
    return sum(film.get("dvd", 0) is None for film in data["films"])


@recipe("There at all")
def _(data):
    return bare(by([land for land in data["countries"] if "capital" in land], "capital")[:5], "name", "capital")


@recipe("By type")
def _(data):
    return bare([film for film in data["films"] if isinstance(film["title"], int)], "title", "released")


@recipe("Either of two indexes")
def _(data):
    return only([film for film in data["films"] if film["director"] == "Stanley Kubrick" or sold(film) >= 1_100_000_000], "title")


@recipe("Neither of these")
def _(data):
    return only(by([film for film in of(data["films"], director="Steven Spielberg")
                    if film.get("rating") not in ("R", "PG-13") and film["released"].year >= 1980], "released"), "title", "rating")


@recipe("Not this expression")
def _(data):
    return bare(by([film for film in of(data["films"], director="Martin Scorsese") if film["title"].split()[0] not in ("The", "A")], "released"), "title")


@recipe("Two fields of one document")
def _(data):
    return bare(by([film for film in of(data["films"], genre="Western") if film["budget"] > sold(film)], "-released"), "title")


@recipe("A variable")
def _(data):
    return bare(by(of(data["films"], director="Clint Eastwood"), "-released")[:5], "title")


@recipe("A range of dates")
def _(data):
    week = datetime.date(2008, 7, 14).isocalendar()[:2]
    return bare(by([film for film in data["films"] if film["released"].isocalendar()[:2] == week], "released", "title"), "title", "released")


@recipe("Both directions")
def _(data):
    return bare(by([film for film in data["films"] if film.get("genre") in ("Western", "Musical")], "-genre", "released", "-title")[:5],
                "title", "genre", "released")


@recipe("A computed field")
def _(data):
    return [{"title": film["title"], "profit": round((sold(film) - film["budget"]) / 1_000_000)}
            for film in sorted(data["films"], key=sold, reverse=True) if sold(film) >= 900_000_000]


@recipe("All but some fields")
def _(data):
    return [{**{field: value for field, value in land.items() if field not in ("core", "neighbours")}, "currency": {"code": "CHF"}}
            for land in of(data["countries"], iso3="CHE")]


@recipe("A part of an array")
def _(data):
    return [{"name": city["name"], "names": city["names"][:2]} for city in by(of(data["cities"], country="GR"), "-population")[:5]]


@recipe("The element that is meant")
def _(data):
    result = []
    for film in by(of(data["films"], director="Stanley Kubrick"), "released"):
        meant = of(film["reviews"], by="Rotten Tomatoes")
        result.append({"title": film["title"], **({"reviews": meant} if meant else {})})
    return result


@recipe("The element that matched")
def _(data):
    return [{"title": film["title"], "reviews": of(film["reviews"], by="Rotten Tomatoes")}
            for film in by(of(data["films"], genre="Western"), "-released") if score(film, "Rotten Tomatoes") >= 90]


@recipe("Answered from the keys")
def _(data):
    return bare(by(of(data["cities"], country="IE"), "-population"), "country", "population")


@recipe("How many")
def _(data):
    return sum(city["population"] >= 1_000_000 for city in of(data["cities"], country="CN"))


@recipe("Distinct values")
def _(data):
    return sorted({city["country"] for city in data["cities"]})


@recipe("Distinct values of a filter")
def _(data):
    return sorted({land["continent"] for land in data["countries"] if land["continent"] >= "N"})


@recipe("By a hash")
def _(data):
    return only(of(data["cities"], timezone="Europe/Lisbon"), "name")


@recipe("A part of the documents")
def _(data):
    return bare(by([city for city in data["cities"] if city["name"].startswith("S") and city["population"] >= 5_000_000], "name"), "name", "population")


@recipe("Any path")
def _(data):
    return only([land for land in data["countries"] if land["currency"]["code"] == "XOF"], "name")


@recipe("An index by name")
def _(data):
    return bare(by(of(data["films"], genre="Concert/Performance"), "released", "title"), "title")


@recipe("Bounds of keys")
def _(data):
    return bare([film for film in titles(data["films"]) if "Q" <= film["title"] < "Qz"], "title")


@recipe("Bits of a number")
def _(data):
    return bare(by([film for film in of(data["films"], genre="Western")
                    if film["director"] and "minutes" in film and film.get("dvd") is not None], "-released"), "title", "known")


@recipe("A remainder")
def _(data):
    return bare([part for part in of(data["speeches"], number=0) if part["year"] % 4 == 0], "year", "president")


@recipe("A schema")
def _(data):
    return bare(by([film for film in of(data["films"], genre="Western") if film.get("dvd") and film.get("minutes") and film["director"]], "-released"),
                "title", "dvd")


def says(text, *beginnings):
    """Whether a word of the text begins so."""
    return any(word.startswith(beginnings) for word in re.findall(r"[a-z]+", text.lower()))


def starts(paragraphs, *fields):
    return [{**part, "starts": paragraph["text"][:60]} for part, paragraph in zip(only(paragraphs, *fields), paragraphs, strict=True)]


@recipe("Words of a text")
def _(data):
    return starts([part for part in data["speeches"] if says(part["text"], "canal", "railroad", "steamboat")])


@recipe("A phrase")
def _(data):
    return starts([part for part in data["speeches"] if "gold and silver" in part["text"].lower()])


@recipe("Words, but not these")
def _(data):
    return starts([part for part in data["speeches"] if says(part["text"], "pirat", "pirac") and not says(part["text"], "spain", "spanish")])


@recipe("Words among others")
def _(data):
    return starts([part for part in data["speeches"] if part["year"] < 1800 and says(part["text"], "coinage", "mint")], "president")


def unit(point):
    east, north = (math.radians(degrees) for degrees in point)
    return math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)


def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def dot(a, b):
    return math.sumprod(a, b) if hasattr(math, "sumprod") else sum(x * y for x, y in zip(a, b, strict=True))


def edges(corners):
    return list(itertools.pairwise([unit(corner) for corner in corners]))


def holds(corners, point):
    """Whether a point is on the inner side of every edge of a convex polygon, whose edges are arcs of great circles."""
    turned = dot(cross(unit(corners[0]), unit(corners[1])), unit(corners[2]))
    return all(dot(cross(a, b), unit(point)) * turned > 0 for a, b in edges(corners))


def cut(a, b, c, d):
    """Whether two arcs cut each other: their planes share a line, of which one end is between the ends of both."""
    shared = cross(cross(a, b), cross(c, d))

    def between(end, first, last):
        normal = cross(first, last)
        return dot(cross(first, end), normal) > 0 and dot(cross(end, last), normal) > 0

    return any(between(end, a, b) and between(end, c, d) for end in (shared, tuple(-part for part in shared)))


def place(city):
    return city["at"]["coordinates"]


@recipe("The nearest")
def _(data):
    near = sorted(data["cities"], key=lambda city: distance(place(city), ZURICH))
    return bare([city for city in near if distance(place(city), ZURICH) <= 100_000], "name", "country")


@recipe("The nearest of a kind")
def _(data):
    return bare(sorted((city for city in data["cities"] if city["population"] >= 1_000_000), key=lambda city: distance(place(city), ZURICH))[:5], "name")


@recipe("Within a polygon")
def _(data):
    corners = [[-9.6, 36.9], [-6.2, 37.0], [-6.2, 42.2], [-9.6, 42.2], [-9.6, 36.9]]
    return bare([city for city in data["cities"] if holds(corners, place(city))], "name", "country")


@recipe("Within a circle")
def _(data):
    return bare([city for city in data["cities"] if distance(place(city), [-0.12574, 51.50853]) <= 50_000], "name")


@recipe("What a line crosses")
def _(data):
    line = [[-8, 39], [38, 56]]
    areas = [(land, land["core"]["coordinates"][0]) for land in data["countries"] if "core" in land]
    return bare([land for land, corners in areas if any(holds(corners, end) for end in line)
                 or any(cut(*edge, *edges(line)[0]) for edge in edges(corners))], "name")


@pytest.fixture(scope="module")
def kitchen(client):
    database, data = client["cookbook_queries"], cookbook_data.documents()
    client.drop_database(database.name)
    for name, documents in data.items():
        database[name].insert_many(documents)
        database[name].create_indexes(cookbook_data.INDEXES[name])
    yield database, data
    client.drop_database(database.name)


def is_ordered(request):
    wanted = request.get("sort", {})
    return bool(wanted) and "score" not in wanted or "$near" in str(request)


def unordered(documents):
    return sorted(documents, key=lambda document: sorted(map(str, document.items())))


def test_every_recipe_has_its_expectation():
    assert sorted(cookbook.recipes(PAGE)) == sorted(cookbook.headings(PAGE)) == sorted(EXPECTED)


def test_the_page_lists_the_indexes():
    lines = []
    for collection, indexes in cookbook_data.INDEXES.items():
        for index in indexes:
            described = dict(index.document)
            name, key = described.pop("name"), json.dumps(dict(described.pop("key")))
            lines.append(" ".join([collection, name, key, *(f"{option}: {json.dumps(value)}" for option, value in described.items())]))
    cookbook.settle(PAGE, PAGE.read_text(encoding="utf-8"), {"text indexes": "\n".join(lines) + "\n"})


@pytest.mark.parametrize("title", sorted(EXPECTED))
def test_a_recipe_gives_what_a_plain_program_gives(kitchen, title):
    database, data = kitchen
    written = cookbook.recipes(PAGE)[title]
    request, expected = cookbook.parsed(written), EXPECTED[title](data)
    command = {written["kind"]: written["collection"], **request}
    if written["kind"] == "find":
        results = list(database.cursor_command("find", written["collection"], **request))
        if is_ordered(request):
            assert results == expected
        else:
            assert unordered(results) == unordered(expected)
    elif written["kind"] == "distinct":
        results = database.command(command)["values"]
        assert sorted(results) == expected
    else:
        results = [database.command(command)["n"]]
        assert results == [expected]
    # A result of nothing would be right of every request that finds nothing.
    assert expected
    plan = cookbook.plan_line(database.command("explain", command)["queryPlanner"]["winningPlan"])
    assert ("COLLSCAN" in plan) == (title in SCANS), plan
    cookbook.settle_recipe(PAGE, written, results, plan)
