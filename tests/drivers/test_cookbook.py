"""The pipelines of docs/cookbook: each gives what a plain program makes of the same documents, and its page shows its first results and
the stages that explain prints. What is right is said by a function of the documents for each heading.

A pipeline that writes has no results of its own: those of its recipe are what the collection holds that it writes to.
`QUARRY_COOKBOOK_ORDERS=1000000` runs those over `orders` with more of them; their pages show the results of the default alone.
"""

import math

import pytest

import cookbook
import cookbook_made
import cookbook_real

MADE, REAL = cookbook.FOLDER / "README.md", cookbook.FOLDER / "real-data.md"
EXPECTED = {MADE: cookbook_made.EXPECTED, REAL: cookbook_real.EXPECTED}
INDEXES = {**cookbook_made.INDEXES, **cookbook_real.INDEXES}
SCALED = cookbook_made.ORDERS != cookbook_made.DEFAULT_ORDERS
# Of many values the method is not exact; the amounts are whole numbers up to 204.
APPROXIMATE = {"Percentiles of each group": 1} if SCALED else {}
# What a pipeline looks up, and the index that it does it by: explain tells nothing of it, but the index counts its uses.
JOINS = [("Users who never did", "events", "user_1_step_1"), ("Bookings that overlap", "bookings", "room_1_begin_1__id_1"),
         ("Everybody below in a tree", "staff", "boss_1"), ("Capitals that are not the largest city", "cities", "country_1_population_-1"),
         ("A join", "users", "_id_")]


def recipes():
    found = {title: (page, recipe) for page in EXPECTED for title, recipe in cookbook.recipes(page).items()}
    return {title: (page, recipe) for title, (page, recipe) in found.items() if not SCALED or recipe["collection"] == "orders"}


RECIPES = recipes()


@pytest.fixture(scope="module")
def kitchen(client):
    database, data = client["cookbook"], {**cookbook_made.documents(), **({} if SCALED else cookbook_real.documents())}
    client.drop_database("cookbook")
    for name, documents in data.items():
        database[name].insert_many(documents)
        for keys in INDEXES.get(name, []):
            database[name].create_index(keys)
    yield database, data
    client.drop_database("cookbook")


def target(pipeline):
    """The collection that a pipeline writes."""
    last = pipeline[-1]
    return last["$merge"]["into"] if "$merge" in last else last.get("$out")


def alike(one, other, apart=1e-12):
    """Equal, but for the last digits of a double, as sums differ by their order, or for what it may be `apart`."""
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=apart)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[name], other[name], apart) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(alike(*pair, apart) for pair in zip(one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def result_of(database, data, collection, pipeline):
    written = target(pipeline)
    if not written:
        return list(database[collection].aggregate(pipeline))
    database[written].drop()
    if written in data:
        database[written].insert_many(data[written])
    assert list(database[collection].aggregate(pipeline)) == []
    return list(database[written].find().sort("_id"))


def test_every_recipe_has_its_expectation():
    for page, expected in EXPECTED.items():
        assert sorted(cookbook.recipes(page)) == sorted(cookbook.headings(page)) == sorted(expected)


@pytest.mark.parametrize("title", sorted(RECIPES))
def test_a_recipe_gives_what_a_plain_program_gives(kitchen, title):
    database, data = kitchen
    page, recipe = RECIPES[title]
    pipeline = cookbook.parsed(recipe)
    results = result_of(database, data, recipe["collection"], pipeline)
    expected = EXPECTED[page][title](data)
    assert results and alike(results, expected, APPROXIMATE.get(title, 1e-12))
    if not SCALED:
        explained = database.command("aggregate", recipe["collection"], pipeline=pipeline, explain=True)
        cookbook.settle_recipe(page, recipe, results, " -> ".join(cookbook.stage_names(explained)))
    written = target(pipeline)
    # That explain was asked has written nothing.
    assert not written or list(database[written].find().sort("_id")) == results


@pytest.mark.parametrize(("title", "joined", "index"), [] if SCALED else JOINS)
def test_a_join_uses_the_index(kitchen, title, joined, index):
    database, _ = kitchen

    def uses():
        return {found["name"]: found["accesses"]["ops"] for found in database[joined].aggregate([{"$indexStats": {}}])}

    before = uses()
    recipe = RECIPES[title][1]
    list(database[recipe["collection"]].aggregate(cookbook.parsed(recipe)))
    assert uses()[index] > before[index]
