"""The recipes of docs/cookbook/README.md: each pipeline gives what a plain program makes of the same documents, and its page shows its
first results and the stages that explain prints. What is right is said here, by a function of the documents for each heading.
"""

import collections
import datetime

import pytest

import cookbook

PAGE = cookbook.FOLDER / "README.md"
START = datetime.datetime(2024, 1, 1)
USERS, KINDS, COUNTRIES = 25, ["book", "film", "game"], ["de", "fr", "jp"]


def numbers(seed):
    while True:
        seed = (seed * 1_103_515_245 + 12_345) % (1 << 31)
        yield seed >> 8


def made():
    random = numbers(7)

    def pick(count):
        return next(random) % count

    users = [{"_id": user, "country": COUNTRIES[pick(3)]} for user in range(USERS)]
    orders = [{"_id": order, "user": pick(USERS), "kind": KINDS[pick(3)], "amount": 5 + pick(200),
               "at": START + datetime.timedelta(days=pick(120), hours=pick(24)),
               "items": sorted({f"item-{pick(6)}" for _ in range(3)})} for order in range(400)]
    events, steps = [], ["visit", "cart", "pay"]
    for user in range(USERS):
        at = START + datetime.timedelta(hours=user)
        for _ in range(2 + pick(12)):
            at += datetime.timedelta(minutes=1 + pick(60))
            events.append({"_id": len(events), "user": user, "at": at, "step": steps[min(pick(3), pick(3))]})
    sensors = [{"_id": n, "at": START + datetime.timedelta(hours=n), "value": n * 10} for n in range(12) if n % 4 != 2]
    staff = [{"_id": person, "boss": (person - 1) // 3 if person else None} for person in range(20)]
    return {"users": users, "orders": orders, "events": events, "sensors": sensors, "staff": staff}


def by(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def funnel(data):
    steps = [{event["step"] for event in events} for events in by(data["events"], lambda event: event["user"]).values()]
    wanted = [{"visit"}, {"visit", "cart"}, {"visit", "cart", "pay"}]
    return [dict(zip(("visited", "carted", "paid"), (sum(need <= has for has in steps) for need in wanted), strict=True))]


def sessions(data):
    result = []
    for user, events in sorted(by(data["events"], lambda event: event["user"]).items()):
        number, last = 0, None
        counts = collections.Counter()
        for event in sorted(events, key=lambda event: event["at"]):
            number += last is None or event["at"] - last > datetime.timedelta(minutes=30)
            counts[number] += 1
            last = event["at"]
        result += [{"_id": {"user": user, "session": session}, "events": counts[session]} for session in sorted(counts)]
    return result


def cohorts(data):
    def month(at):
        return (at.year - START.year) * 12 + at.month - 1

    first = {user: min(month(order["at"]) for order in orders) for user, orders in by(data["orders"], lambda o: o["user"]).items()}
    seen = collections.defaultdict(set)
    for order in data["orders"]:
        seen[first[order["user"]], month(order["at"]) - first[order["user"]]].add(order["user"])
    return [{"cohort": START.replace(month=1 + cohort), "age": age, "users": len(users)} for (cohort, age), users in sorted(seen.items())]


def daily(data):
    return {day: sum(order["amount"] for order in orders) for day, orders in
            by(data["orders"], lambda order: order["at"].replace(hour=0)).items()}


def rolling(data):
    days = daily(data)
    result = []
    for day in sorted(days):
        window = [days[other] for other in days if datetime.timedelta(0) <= day - other <= datetime.timedelta(days=6)]
        result.append({"_id": day, "total": days[day], "week": sum(window) / len(window)})
    return result


def best(data):
    groups = sorted(by(data["orders"], lambda order: order["kind"]).items())
    return [{"_id": kind, "best": [{"order": order["_id"], "amount": order["amount"]} for order in
                                   sorted(orders, key=lambda order: (-order["amount"], order["_id"]))[:2]]} for kind, orders in groups]


def joined(data):
    country = {user["_id"]: user["country"] for user in data["users"]}
    groups = by(data["orders"], lambda order: country[order["user"]])
    return [{"_id": name, "orders": len(groups[name]), "amount": sum(order["amount"] for order in groups[name])} for name in sorted(groups)]


def histogram(data):
    counts = collections.Counter(order["amount"] // 50 * 50 for order in data["orders"])
    return [{"_id": low, "orders": counts[low]} for low in sorted(counts)]


def percentiles(data):
    result = []
    for kind, orders in sorted(by(data["orders"], lambda order: order["kind"]).items()):
        amounts = sorted(float(order["amount"]) for order in orders)
        place = [-(-len(amounts) * percent // 100) - 1 for percent in (50, 90, 99)]
        result.append({"_id": kind, "p": [amounts[at] for at in place], "median": amounts[place[0]]})
    return result


def gaps(data):
    known = {sensor["at"]: sensor["value"] for sensor in data["sensors"]}
    hours = [START + datetime.timedelta(hours=hour) for hour in range(12)]
    # The values are ten times the hour, so that a line between two of them is, too.
    return [{"at": hour, "value": hours.index(hour) * 10, "measured": hour in known} for hour in hours]


def tree(data):
    below = {person["_id"]: set() for person in data["staff"]}
    for person in data["staff"]:
        above = person["boss"]
        while above is not None:
            below[above].add(person["_id"])
            above = (above - 1) // 3 if above else None
    return [{"_id": person, "reports": len(below[person])} for person in sorted(below) if below[person]]


def shares(data):
    groups = by(data["orders"], lambda order: order["kind"])
    sums = {kind: sum(order["amount"] for order in orders) for kind, orders in groups.items()}
    return [{"_id": kind, "amount": sums[kind], "share": sums[kind] / sum(sums.values())}
            for kind in sorted(sums, key=lambda kind: (-sums[kind], kind))]


def pairs(data):
    counts = collections.Counter((a, b) for order in data["orders"] for a in order["items"] for b in order["items"] if a < b)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"_id": {"a": a, "b": b}, "orders": count} for (a, b), count in ranked[:5]]


def latest(data):
    newest = {user: max(orders, key=lambda order: (order["at"], order["_id"])) for user, orders in
              by(data["orders"], lambda order: order["user"]).items()}
    return [{"_id": user, "order": newest[user]["_id"], "at": newest[user]["at"]} for user in sorted(newest)]


def facets(data):
    kinds = collections.Counter(order["kind"] for order in data["orders"])
    return [{"kinds": [{"_id": kind, "n": kinds[kind]} for kind in sorted(kinds)],
             "amounts": [{"_id": None, "least": min(order["amount"] for order in data["orders"]),
                          "greatest": max(order["amount"] for order in data["orders"])}]}]


EXPECTED = {
    "A funnel": funnel, "Sessions": sessions, "Retention of cohorts": cohorts, "A rolling average": rolling,
    "The best two of each group": best, "A join": joined, "A histogram": histogram, "Percentiles of each group": percentiles,
    "Gaps filled": gaps, "Everybody below in a tree": tree, "Shares of a total": shares, "Bought together": pairs,
    "The latest of each": latest, "Several answers at once": facets,
}


@pytest.fixture(scope="module")
def kitchen(client):
    database, data = client["cookbook"], made()
    client.drop_database("cookbook")
    for name, documents in data.items():
        database[name].insert_many(documents)
    yield database, data
    client.drop_database("cookbook")


def test_every_recipe_has_its_expectation():
    assert sorted(cookbook.recipes(PAGE)) == sorted(cookbook.headings(PAGE)) == sorted(EXPECTED)


@pytest.mark.parametrize("title", sorted(EXPECTED))
def test_a_recipe_gives_what_a_plain_program_gives(kitchen, title):
    database, data = kitchen
    recipe = cookbook.recipes(PAGE)[title]
    pipeline = cookbook.parsed(recipe)
    results = list(database[recipe["collection"]].aggregate(pipeline))
    assert results == EXPECTED[title](data)
    explained = database.command("aggregate", recipe["collection"], pipeline=pipeline, explain=True)
    cookbook.settle_recipe(PAGE, recipe, results, " -> ".join(cookbook.stage_names(explained)))
