"""Generated documents, and what the recipes of docs/cookbook/README.md give over them.

`QUARRY_COOKBOOK_ORDERS` is how many orders there are; with more of them there are more users, too.
"""

import collections
import datetime
import decimal
import os

from bson.decimal128 import Decimal128

START = datetime.datetime(2024, 1, 1)
DEFAULT_ORDERS = 400
ORDERS = int(os.environ.get("QUARRY_COOKBOOK_ORDERS") or DEFAULT_ORDERS)
USERS, ACTIVE, KINDS, COUNTRIES = max(1, ORDERS // 16), 25, ["book", "film", "game"], ["de", "fr", "jp"]
ITEMS = [f"item-{number}" for number in range(6)]
STEPS = ["visit", "cart", "pay"]
INDEXES = {
    "orders": [[("user", 1), ("at", -1), ("_id", -1)], [("at", 1), ("_id", 1)], [("kind", 1)]],
    "events": [[("user", 1), ("at", 1)], [("user", 1), ("step", 1)]],
    "sensors": [[("at", 1)]],
    "staff": [[("boss", 1)]],
    "movements": [[("item", 1), ("at", 1), ("_id", 1)]],
    "bookings": [[("room", 1), ("begin", 1), ("_id", 1)]],
}


def numbers(seed):
    while True:
        seed = (seed * 1_103_515_245 + 12_345) % (1 << 31)
        yield seed >> 8


def hours(count):
    return datetime.timedelta(hours=count)


def documents():
    random = numbers(7)

    def pick(count):
        return next(random) % count

    users = [{"_id": user, "country": COUNTRIES[pick(3)]} for user in range(USERS)]
    orders = [{"_id": order, "user": pick(USERS), "kind": KINDS[pick(3)], "amount": 5 + pick(200),
               "at": START + datetime.timedelta(days=pick(120), hours=pick(24)),
               "items": sorted({ITEMS[pick(6)] for _ in range(3)})} for order in range(ORDERS)]
    events = []
    for user in range(ACTIVE):
        at = START + hours(user)
        for _ in range(2 + pick(12)):
            at += datetime.timedelta(minutes=1 + pick(60))
            events.append({"_id": len(events), "user": user, "at": at, "step": STEPS[min(pick(3), pick(3))]})
    sensors = [{"_id": n, "at": START + hours(n), "value": n * 10} for n in range(12) if n % 4 != 2]
    staff = [{"_id": person, "boss": (person - 1) // 3 if person else None} for person in range(20)]
    return {"users": users, "orders": orders, "events": events, "sensors": sensors, "staff": staff, **more_documents()}


def more_documents():
    random = numbers(11)

    def pick(count):
        return next(random) % count

    def paper(depth):
        parts = [paper(depth - 1) for _ in range(pick(3))] if depth else []
        return {"level": 1 + pick(3), "title": f"title-{pick(100)}", "parts": parts}

    movements = [{"_id": n, "item": ITEMS[n % 5], "at": START + hours(7 * n), "change": 5 + pick(20) if pick(3) == 0 else -1 - pick(8)}
                 for n in range(90)]
    bookings = []
    for number in range(60):
        begin = START + hours(pick(200))
        bookings.append({"_id": number, "room": pick(4), "begin": begin, "end": begin + hours(1 + pick(8))})
    carts = [{"_id": cart, "names": ITEMS[:size], "counts": [1 + pick(4) for _ in range(size)], "prices": [3 + pick(30) for _ in range(size)]}
             for cart, size in enumerate(1 + pick(6) for _ in range(12))]
    return {"movements": movements, "bookings": bookings, "carts": carts, "papers": [{"_id": n, **paper(2)} for n in range(12)],
            "prices": [{"_id": n, "price.net": 10 + pick(90), "$tax": 1 + pick(20)} for n in range(12)],
            "totals": [{"_id": "book", "orders": 10, "amount": 1000}, {"_id": "film", "orders": 5, "amount": 400},
                       {"_id": "map", "orders": 1, "amount": 9}]}


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


def never_paid(data):
    paid = {event["user"] for event in data["events"] if event["step"] == "pay"}
    return [user for user in data["users"] if user["_id"] not in paid]


def stock(data):
    result = []
    for item, moves in sorted(by(data["movements"], lambda move: move["item"]).items()):
        changes = [move["change"] for move in sorted(moves, key=lambda move: move["at"])]
        levels = [sum(changes[:count]) for count in range(1, len(changes) + 1)]
        result.append({"_id": item, "movements": len(changes), "stock": levels[-1], "least": min(levels)})
    return result


def overlaps(data):
    return [{"_id": one["_id"], "room": one["room"], "other": other["_id"]} for one in data["bookings"] for other in data["bookings"]
            if one["room"] == other["room"] and one["_id"] < other["_id"] and one["begin"] < other["end"] and other["begin"] < one["end"]]


def stretches(data):
    result = []
    for room, bookings in sorted(by(data["bookings"], lambda booking: booking["room"]).items()):
        # An hour of which nothing is booked ends a stretch, but not when one booking ends as another begins.
        taken = {(booking["begin"] + hours(hour)) for booking in bookings for hour in range((booking["end"] - booking["begin"]) // hours(1))}
        for begin in sorted(hour for hour in taken if hour - hours(1) not in taken):
            end = begin
            while end in taken:
                end += hours(1)
            inside = sum(begin <= booking["begin"] < end for booking in bookings)
            result.append({"begin": begin, "end": end, "bookings": inside, "room": room})
    return result


def waits(data):
    result = []
    for user, orders in by(data["orders"], lambda order: order["user"]).items():
        times = sorted(order["at"] for order in orders)
        between = [(after - before) // hours(1) for before, after in zip(times, times[1:])]
        if between:
            result.append({"_id": user, "mean": sum(between) / len(between), "longest": max(between)})
    return sorted(result, key=lambda row: (-row["longest"], row["_id"]))[:5]


def heat_map(data):
    counts = collections.defaultdict(collections.Counter)
    for order in data["orders"]:
        # In 2024 clocks in New York were put forward at 7:00 UTC of March 10.
        local = order["at"] - hours(4 if order["at"] >= datetime.datetime(2024, 3, 10, 7) else 5)
        counts[local.isoweekday()][local.hour] += 1
    return [{"_id": weekday, "hours": {str(hour): counts[weekday][hour] for hour in sorted(counts[weekday])}} for weekday in sorted(counts)]


def spent(data):
    sums = collections.Counter()
    for order in data["orders"]:
        sums[order["user"]] += order["amount"]
    return sums


def abc(data):
    sums = spent(data)
    total, running, classes = sum(sums.values()), 0, collections.defaultdict(list)
    for _, amount in sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])):
        running += amount
        # In whole numbers: four fifths, and 19 twentieths.
        classes["A" if 5 * running <= 4 * total else "B" if 20 * running <= 19 * total else "C"].append(amount)
    return [{"_id": name, "users": len(classes[name]), "amount": sum(classes[name])} for name in sorted(classes)]


def rfm(data):
    groups = by(data["orders"], lambda order: order["user"])
    facts = {user: (max(order["at"] for order in orders), len(orders), sum(order["amount"] for order in orders)) for user, orders in groups.items()}
    scores = collections.defaultdict(list)
    for fact in range(3):
        for place, user in enumerate(sorted(facts, key=lambda user: (facts[user][fact], user)), 1):
            scores[user].append(-(-5 * place // len(facts)))
    return [{"_id": user, "rfm": scores[user]} for user in sorted(scores)]


def distinct_so_far(data):
    weeks = by(data["orders"], lambda order: (order["at"] - START).days // 7)
    seen, result = set(), []
    for week in sorted(weeks):
        new = {order["user"] for order in weeks[week]} - seen
        seen |= new
        if new:
            # The first of January 2024 was a Monday.
            result.append({"_id": START + datetime.timedelta(days=7 * week), "new": len(new), "users": len(seen)})
    return result


def summary(data):
    sums = {row["_id"]: [row["orders"], row["amount"]] for row in data["totals"]}
    for order in data["orders"]:
        row = sums.setdefault(order["kind"], [0, 0])
        row[0] += 1
        row[1] += order["amount"]
    return [{"_id": kind, "orders": sums[kind][0], "amount": sums[kind][1]} for kind in sorted(sums)]


def months(data):
    groups = by(data["orders"], lambda order: f"{order['at'].year}-{order['at'].month:02}")
    return [{"_id": month, "orders": len(groups[month]), "amount": sum(order["amount"] for order in groups[month]),
             "users": len({order["user"] for order in groups[month]})} for month in sorted(groups)]


def timeline(data):
    lines = [{"at": order["at"], "what": f"ordered a {order['kind']}"} for order in data["orders"] if order["user"] == 3]
    lines += [{"at": event["at"], "what": event["step"]} for event in data["events"] if event["user"] == 3]
    return sorted(lines, key=lambda line: (line["at"], line["what"]))


def sample(data):
    drawn = min(100, len(data["orders"]))
    return [{"drawn": drawn, "known": drawn, "different": drawn}]


def readable(data):
    def cut(paper):
        return {**paper, "parts": [cut(part) for part in paper["parts"] if part["level"] <= 2]}

    return [cut(paper) for paper in data["papers"] if paper["level"] <= 2]


def dotted(data):
    gross = [{"_id": row["_id"], "price.net": row["price.net"], "price.gross": row["price.net"] + row["$tax"]} for row in data["prices"]]
    return [row for row in gross if row["price.gross"] >= 50]


def arrays(data):
    result = []
    for cart in data["carts"]:
        lines = [{"name": name, "amount": count * price} for name, count, price in zip(cart["names"], cart["counts"], cart["prices"])]
        result.append({"_id": cart["_id"], "large": [line for line in lines if line["amount"] >= 50], "total": sum(line["amount"] for line in lines)})
    return result


def currencies(data):
    country = {user["_id"]: user["country"] for user in data["users"]}
    groups = by(data["orders"], lambda order: (order["at"].month, country[order["user"]]))
    result = []
    for (month, name), orders in sorted(groups.items()):
        amount = sum(order["amount"] for order in orders)
        euros = Decimal128(amount * decimal.Decimal("0.0061")) if name == "jp" else amount
        result.append({"_id": {"month": month, "country": name}, "amount": amount, "euros": euros})
    return result


EXPECTED = {
    "A funnel": funnel, "Sessions": sessions, "Retention of cohorts": cohorts, "A rolling average": rolling,
    "The best two of each group": best, "A join": joined, "A histogram": histogram, "Percentiles of each group": percentiles,
    "Gaps filled": gaps, "Everybody below in a tree": tree, "Shares of a total": shares, "Bought together": pairs,
    "The latest of each": latest, "The latest of each, from an index": latest, "Several answers at once": facets,
    "Users who never did": never_paid, "Stock from movements": stock, "Bookings that overlap": overlaps, "Busy stretches": stretches,
    "Time between orders": waits, "A heat map by weekday and hour": heat_map, "ABC analysis": abc, "RFM scores": rfm,
    "Distinct users so far": distinct_so_far, "Merged into a summary": summary, "A report that replaces the last one": months,
    "One timeline of two collections": timeline, "A sample": sample, "What a reader may see": readable,
    "Names with dots and dollars": dotted, "Arrays side by side": arrays, "Currencies": currencies,
}
