"""Real films, share prices, weather, cars, cities and countries as documents, and what the recipes of docs/cookbook/real-data.md give.

scripts/bootstrap.sh installs what they are made of: a package of Python and one of npm, of which only the files are read.
"""

import collections
import csv
import datetime
import functools
import json
import math
import re

from cookbook_data import CITY_PEOPLE_MIN, MOVIES, distance, places
from cookbook_made import by

INDEXES = {
    "movies": [[("Major Genre", 1), ("IMDB Rating", -1)], [("Title", "text")]],
    "stocks": [[("symbol", 1), ("date", 1)]],
    "weather": [[("date", 1)], [("precipitation", 1), ("date", 1)]],
    "cities": [[("country", 1), ("population", -1)], [("at", "2dsphere")]],
    "countries": [[("continent", 1)]],
}


def rows(name):
    path = MOVIES.parent / name
    if path.suffix == ".json":
        found = json.loads(path.read_text(encoding="utf-8"))
    else:
        with path.open(encoding="utf-8", newline="") as lines:
            found = list(csv.DictReader(lines))
    return [{"_id": number, **row} for number, row in enumerate(found)]


@functools.cache
def documents():
    stocks = [{**row, "date": datetime.datetime.strptime(row["date"], "%b %d %Y"), "price": float(row["price"])} for row in rows("stocks.csv")]
    weather = [{**row, "date": datetime.datetime.fromisoformat(row["date"]),
                **{name: float(row[name]) for name in ("precipitation", "temp_max", "temp_min", "wind")}} for row in rows("seattle-weather.csv")]
    cities = [{"_id": city["geonameid"], "name": city["name"], "country": city["countrycode"], "population": city["population"],
               "at": {"type": "Point", "coordinates": [city["longitude"], city["latitude"]]}}
              for city in places("cities") if city["population"] >= CITY_PEOPLE_MIN]
    countries = [{"_id": land["iso"], "name": land["name"], "continent": land["continentcode"], "capital": land["capital"],
                  "population": land["population"], "currency": land["currencycode"], "languages": land["languages"],
                  "neighbours": [other for other in land["neighbours"].split(",") if other]} for land in places("countries")]
    return {"movies": rows("movies.json"), "stocks": stocks, "weather": weather, "cars": rows("cars.json"), "cities": cities,
            "countries": countries}


def ranks(data):
    films = [film for film in data["movies"] if film["Major Genre"] == "Western" and (film["IMDB Rating"] or 0) >= 6]
    ratings = sorted((film["IMDB Rating"] for film in films), reverse=True)
    different = sorted(set(ratings), reverse=True)
    ranked = [{"Title": film["Title"], "IMDB Rating": film["IMDB Rating"], "rank": ratings.index(film["IMDB Rating"]) + 1,
               "dense": different.index(film["IMDB Rating"]) + 1} for film in films]
    return sorted(ranked, key=lambda film: (film["rank"], film["Title"]))


def prices(data, symbol):
    return {row["date"]: row["price"] for row in data["stocks"] if row["symbol"] == symbol}


def year_over_year(data):
    price = prices(data, "IBM")
    result = []
    for date in sorted(price):
        before = price.get(date.replace(year=date.year - 1))
        if before is not None:
            result.append({"date": date, "price": price[date], "before": before, "change": price[date] / before - 1})
    return result


def moving_median(data):
    days = sorted((day["date"], day["temp_max"]) for day in data["weather"] if day["date"].year == 2013)
    result = []
    for place, (date, degrees) in enumerate(days):
        week = sorted(other for _, other in days[max(0, place - 3):place + 4])
        result.append({"date": date, "temp_max": degrees, "median": week[(len(week) + 1) // 2 - 1]})
    return result


def smoothed(data):
    result = []
    for date, price in sorted(prices(data, "AAPL").items()):
        if date.year < 2007:
            continue
        last = result[-1] if result else None
        # Of N prices the newest weighs 2 / (N + 1).
        smooth = price / 2 + last["smooth"] / 2 if last else price
        daily = (price - last["price"]) / (date - last["date"]).days if last else None
        result.append({"date": date, "price": price, "smooth": smooth, "daily": daily})
    return result


def equal_buckets(data):
    films = sorted((film for film in data["movies"] if film["IMDB Votes"] is not None), key=lambda film: film["IMDB Votes"])
    size, buckets, at = round(len(films) / 5), [], 0
    while at < len(films):
        end = min(at + size, len(films)) if len(buckets) < 4 else len(films)
        # Equal values never lie in two buckets.
        while end < len(films) and films[end]["IMDB Votes"] == films[end - 1]["IMDB Votes"]:
            end += 1
        buckets.append(films[at:end])
        at = end
    least = [bucket[0]["IMDB Votes"] for bucket in buckets] + [films[-1]["IMDB Votes"]]
    result = []
    for number, bucket in enumerate(buckets):
        ratings = [film["IMDB Rating"] for film in bucket if film["IMDB Rating"] is not None]
        result.append({"_id": {"min": least[number], "max": least[number + 1]}, "films": len(bucket), "rating": math.fsum(ratings) / len(ratings)})
    return result


def grid(data):
    squares = by(data["cities"], lambda city: tuple(degrees // 10 * 10 for degrees in city["at"]["coordinates"]))
    sums = [{"_id": list(square), "cities": len(cities), "people": sum(city["population"] for city in cities)}
            for square, cities in squares.items()]
    return sorted(sums, key=lambda square: -square["people"])[:5]


def around(data):
    near = sorted(((distance([16.37208, 48.20849], city["at"]["coordinates"]), city["country"], city["name"]) for city in data["cities"]))
    groups = by([city for city in near if city[0] <= 400_000], lambda city: city[1])
    return [{"_id": country, "cities": len(cities), "nearest": cities[0][2], "metres": cities[0][0]} for country, cities in groups.items()]


def pivot(data):
    table = collections.defaultdict(dict)
    for row in sorted(data["stocks"], key=lambda row: row["symbol"]):
        year = table[row["date"].year]
        year[row["symbol"]] = max(year.get(row["symbol"], 0), row["price"])
    return [{"year": year, **table[year]} for year in sorted(table)]


def unpivot(data):
    sums = collections.defaultdict(list)
    for film in data["movies"]:
        for kind, name in (("cinema", "US Gross"), ("dvd", "US DVD Sales"), ("world", "Worldwide Gross")):
            if film[name] is not None:
                sums[int(film["Release Date"][-4:-1] + "0"), kind].append(film[name])
    return [{"_id": {"decade": decade, "kind": kind}, "films": len(found), "dollars": sum(found)}
            for (decade, kind), found in sorted(sums.items())]


def duplicates(data):
    groups = by(data["cars"], lambda car: (car["Name"], int(car["Year"][:4])))
    return [{"_id": {"name": name, "year": year}, "keep": cars[0]["_id"], "drop": [car["_id"] for car in cars[1:]]}
            for (name, year), cars in groups.items() if len(cars) > 1]


def makers(data):
    right = {"vw": "volkswagen", "vokswagen": "volkswagen", "chevy": "chevrolet", "chevroelt": "chevrolet", "maxda": "mazda", "toyouta": "toyota"}
    groups = by(data["cars"], lambda car: right.get(car["Name"].split()[0], car["Name"].split()[0]))
    result = []
    for maker, cars in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:6]:
        power = [car["Horsepower"] for car in cars if car["Horsepower"] is not None]
        result.append({"_id": maker, "cars": len(cars), "horsepower": sum(power) / len(power)})
    return result


def titles(data):
    found = []
    for film in data["movies"]:
        words = set(re.findall(r"[a-z]+", str(film["Title"]).lower()))
        if words & {"war", "wars"} and not words & {"star", "stars"}:
            found.append(film)
    found.sort(key=lambda film: (-(film["IMDB Rating"] or 0), film["_id"]))
    return [{"Title": film["Title"], "IMDB Rating": film["IMDB Rating"]} for film in found]


def borders(data):
    neighbours = {land["_id"]: land["neighbours"] for land in data["countries"]}
    seen, edge, result = set(), set(neighbours["PT"]), []
    while edge and len(result) <= 3:
        result.append({"_id": len(result), "countries": sorted(edge)})
        seen |= edge
        edge = {other for land in edge for other in neighbours[land] if other in neighbours} - seen
    return result


def half_of_the_rain(data):
    result = []
    for year, days in sorted(by(data["weather"], lambda day: day["date"].year).items()):
        total, fallen = math.fsum(day["precipitation"] for day in days), 0
        for day in sorted(days, key=lambda day: day["date"]):
            fallen += day["precipitation"]
            if fallen >= total / 2:
                result.append({"_id": year, "day": day["date"], "total": total})
                break
    return result


def dry_spells(data):
    spells, last = [], None
    for date in sorted(day["date"] for day in data["weather"] if day["precipitation"] == 0):
        if last is None or (date - last).days > 1:
            spells.append({"from": date, "days": 0})
        spells[-1]["days"] += 1
        last = date
    return sorted(spells, key=lambda spell: (-spell["days"], spell["from"]))[:5]


def capitals(data):
    cities, result = by(data["cities"], lambda city: city["country"]), []
    for land in sorted(data["countries"], key=lambda land: -land["population"]):
        if land["_id"] in cities:
            largest = max(cities[land["_id"]], key=lambda city: city["population"])["name"]
            if largest != land["capital"]:
                result.append({"capital": land["capital"], "country": land["name"], "largest": largest})
    return result[:5]


def languages(data):
    spoken = [{tag.split("-")[0].strip().lower() for tag in land["languages"].split(",")} for land in data["countries"] if land["languages"]]
    counts = collections.Counter(language for some in spoken for language in some)
    return [{"_id": language, "countries": count} for language, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:5]]


def first_and_last(data):
    result = []
    for symbol in {row["symbol"] for row in data["stocks"]}:
        price = prices(data, symbol)
        begin, end = min(price), max(price)
        result.append({"_id": symbol, "from": begin, "bought": price[begin], "to": end, "sold": price[end], "times": price[end] / price[begin]})
    return sorted(result, key=lambda row: -row["times"])


def money(data):
    currency = {land["_id"]: land["currency"] for land in data["countries"]}
    result = []
    for land in sorted(data["countries"], key=lambda land: land["name"]):
        if land["continent"] == "SA":
            own, theirs = {land["currency"]}, {currency[other] for other in land["neighbours"]}
            result.append({"name": land["name"], "shared": sorted(own & theirs), "foreign": sorted(theirs - own), "either": len(own | theirs),
                           "abroad": own <= theirs})
    return result


EXPECTED = {
    "Ranks": ranks, "Change from year to year": year_over_year, "A moving median": moving_median,
    "A smoothed price and its slope": smoothed, "Buckets of the same size": equal_buckets, "Cities on a grid": grid,
    "Countries around a place": around, "A pivot": pivot, "An unpivot": unpivot, "Duplicates": duplicates,
    "Makers, spelled right": makers, "Words in titles": titles, "Borders to cross": borders, "Half of the year's rain": half_of_the_rain,
    "Dry spells": dry_spells, "Capitals that are not the largest city": capitals, "Languages of most countries": languages,
    "First and last": first_and_last, "Money on both sides of a border": money,
}
