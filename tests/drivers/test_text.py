"""Text indexes and $text as drivers make and ask them: terms, phrases, negation, languages, weights, scores and what is refused."""

import pytest
from pymongo import ASCENDING, TEXT
from pymongo.errors import OperationFailure, WriteError

SCORE = {"$meta": "textScore"}
ARTICLES = [
    {"_id": 1, "subject": "coffee", "author": "xyz", "views": 50},
    {"_id": 2, "subject": "Coffee Shopping", "author": "efg", "views": 5},
    {"_id": 3, "subject": "Baking a cake", "author": "abc", "views": 90},
    {"_id": 4, "subject": "baking", "author": "xyz", "views": 100},
    {"_id": 5, "subject": "Café Con Leche", "author": "abc", "views": 200},
    {"_id": 6, "subject": "Сырники", "author": "jkl", "views": 80},
    {"_id": 7, "subject": "coffee and cream", "author": "efg", "views": 10},
    {"_id": 8, "subject": "Cafe con Leche", "author": "xyz", "views": 10},
]


@pytest.fixture
def articles(collection):
    collection.insert_many(ARTICLES)
    assert collection.create_index([("subject", TEXT)]) == "subject_text"
    return collection


def search(collection, text, **options):
    asked = {"$search": text, **{f"${name}": value for name, value in options.items()}}
    return sorted(found["_id"] for found in collection.find({"$text": asked}, batch_size=2))


def is_valid(collection):
    return collection.database.command("validate", collection.name, full=True)["valid"]


def stages(plan):
    names = []
    while plan:
        names.append(plan["stage"])
        names += [branch["stage"] for branch in plan.get("inputStages", [])]
        plan = plan.get("inputStage")
    return names


def refusal(act):
    with pytest.raises(OperationFailure) as refused:
        act()
    return refused.value.code


def test_terms_phrases_and_negation(articles):
    assert search(articles, "coffee") == [1, 2, 7]
    assert search(articles, "bake coffee cake") == [1, 2, 3, 4, 7]
    assert search(articles, '"coffee shop"') == [2]
    assert search(articles, "coffee -shop") == [1, 7]
    assert search(articles, 'coffee -"and cream"') == [1, 2]
    assert search(articles, "leche", language="es") == [5, 8]
    assert search(articles, "сы́рники CAFÉS") == [5, 6, 8]
    assert search(articles, "Coffee", caseSensitive=True) == [2]
    assert search(articles, "CAFÉ", diacriticSensitive=True) == [5]
    assert search(articles, "the and -coffee") == []
    assert articles.count_documents({"$text": {"$search": "coffee"}, "author": "efg"}) == 2
    assert sorted(articles.distinct("author", {"$text": {"$search": "coffee"}})) == ["efg", "xyz"]


def test_scores_in_projections_sorts_and_pipelines(articles):
    asked = {"$text": {"$search": "coffee shop"}}
    found = articles.find(asked, {"score": SCORE}).sort([("score", SCORE)])
    assert [(thing["_id"], thing["score"]) for thing in found] == [(2, 1.5), (1, 1.0), (7, 0.75)]
    best = list(articles.find(asked).sort([("s", SCORE)]).limit(1))
    assert best == [ARTICLES[1]]
    pipeline = [
        {"$match": {"$text": {"$search": "cake coffee"}}}, {"$sort": {"score": SCORE, "views": -1}},
        {"$project": {"subject": 1, "_id": 0, "score": SCORE}}, {"$match": {"score": {"$gt": 0.9}}},
    ]
    assert list(articles.aggregate(pipeline)) == [{"subject": "coffee", "score": 1.0}]
    summed = [{"$match": {"$text": {"$search": "cake coffee"}}}, {"$group": {"_id": None, "views": {"$sum": "$views"}}}]
    assert list(articles.aggregate(summed)) == [{"_id": None, "views": 155}]
    # Without a sort the documents are given as they are found, in as many batches as it takes.
    batches = articles.find({"$text": {"$search": "coffee shop cake baking leche"}}, {"score": SCORE}, batch_size=2)
    assert sorted(thing["_id"] for thing in batches) == [1, 2, 3, 4, 5, 7, 8]
    joined = [{"$match": {"_id": 1}}, {"$lookup": {"from": articles.name, "pipeline": summed, "as": "all"}}]
    assert list(articles.aggregate(joined))[0]["all"] == [{"_id": None, "views": 155}]


def test_the_best_is_changed_first(articles):
    asked = {"$text": {"$search": "coffee shop"}}
    changed = articles.find_one_and_update(asked, {"$set": {"views": 6}}, sort=[("s", SCORE)], projection={"views": 1})
    assert changed == {"_id": 2, "views": 5}
    assert articles.find_one_and_delete(asked, sort=[("s", SCORE)])["_id"] == 2
    articles.create_index("views")
    either = {"$or": [{"views": 100}, asked]}
    assert articles.find_one_and_delete(either, sort=[("s", SCORE)])["_id"] == 1
    assert articles.find_one_and_replace(either, {"subject": "tea"}, sort=[("s", SCORE)])["_id"] == 7
    assert articles.find_one_and_delete(either, sort=[("s", SCORE)])["_id"] == 4
    assert articles.find_one_and_delete(either, sort=[("s", SCORE)]) is None
    assert refusal(lambda: articles.find_one_and_delete(asked, projection={"s": SCORE})) == 238
    assert is_valid(articles)


def test_a_search_within_an_or_gives_scores_to_what_it_finds(articles):
    articles.create_index("views")
    found = articles.find({"$or": [{"views": {"$gte": 100}}, {"$text": {"$search": "coffee shop"}}]}, {"score": SCORE}, batch_size=2)
    found = {thing["_id"]: thing.get("score") for thing in found}
    assert found == {1: 1.0, 2: 1.5, 7: 0.75, 4: None, 5: None}


def test_definitions_are_listed_as_mongodb_lists_them(articles):
    listed = [index.to_dict() for index in articles.list_indexes() if index["name"] == "subject_text"]
    assert listed == [{
        "v": 2, "key": {"_fts": "text", "_ftsx": 1}, "name": "subject_text", "weights": {"subject": 1},
        "default_language": "english", "language_override": "language", "textIndexVersion": 3,
    }]
    assert articles.create_index([("subject", TEXT)]) == "subject_text"
    assert refusal(lambda: articles.create_index([("author", TEXT)])) == 85
    assert refusal(lambda: articles.create_index([("views", ASCENDING), ("author", TEXT)])) == 67
    articles.drop_index("subject_text")
    assert refusal(lambda: search(articles, "coffee")) == 27
    for options in [{"unique": True}, {"textIndexVersion": 2}, {"default_language": "klingon"}, {"collation": {"locale": "de"}}]:
        assert refusal(lambda: articles.create_index([("subject", TEXT)], **options)) == 67
    articles.create_index([("subject", TEXT), ("author", TEXT)], weights={"author": 7}, default_language="none", hidden=True, name="t")
    assert refusal(lambda: search(articles, "coffee")) == 27
    articles.database.command("collMod", articles.name, index={"name": "t", "hidden": False})
    assert search(articles, "baking xyz") == [1, 3, 4, 8]
    best = articles.find({"$text": {"$search": "baking xyz"}}).sort([("s", SCORE)])
    assert [thing["_id"] for thing in best][0] == 4


def test_languages_of_documents_and_of_parts_of_them(collection):
    collection.insert_many([
        {"_id": 1, "language": "portuguese", "original": "A sorte protege os audazes.", "translation": [
            {"language": "english", "quote": "Fortune favors the bold."}, {"language": "spanish", "quote": "La suerte protege a los audaces."}]},
        {"_id": 2, "language": "spanish", "original": "Nada hay más surrealista que la realidad.", "translation": [
            {"language": "english", "quote": "There is nothing more surreal than reality."},
            {"language": "french", "quote": "Il n'y a rien de plus surréaliste que la réalité."}]},
        {"_id": 3, "original": "is this a dagger which I see before me.", "translation": {"language": "spanish", "quote": "Es este un puñal que veo delante de mí."}},
    ])
    collection.create_index([("original", TEXT), ("translation.quote", TEXT)])
    assert search(collection, "favor bolds") == [1]
    assert search(collection, "suertes", language="es") == [1]
    assert search(collection, "realities") == [2]
    assert search(collection, "dagger") == [3]
    with pytest.raises(WriteError) as refused:
        collection.insert_one({"language": "NL-be", "original": "x"})
    assert refused.value.code == 17262
    assert is_valid(collection)


def test_every_field_and_fields_beside_the_terms(collection):
    collection.insert_many([{"_id": n, "group": n % 3, "notes": {"tags": [f"tag{n % 5}", "shared"]}, "n": n} for n in range(300)])
    collection.create_index([("group", ASCENDING), ("$**", TEXT)], name="every")
    assert collection.index_information()["every"]["weights"] == {"$**": 1}
    found = {thing["_id"] for thing in collection.find({"group": 1, "$text": {"$search": "tag3"}}, batch_size=3)}
    assert found == {n for n in range(300) if n % 3 == 1 and n % 5 == 3}
    assert refusal(lambda: search(collection, "shared")) == 291
    plan = collection.find({"group": 1, "$text": {"$search": "tag3 tag4"}}).explain()["queryPlanner"]["winningPlan"]
    assert stages(plan) == ["FETCH", "TEXT_MATCH", "FETCH", "OR", "IXSCAN", "IXSCAN"]
    match = plan["inputStage"]
    assert (match["indexPrefix"], match["indexName"], match["textIndexVersion"]) == ({"group": 1}, "every", 3)
    assert match["parsedTextQuery"] == {"terms": ["tag3", "tag4"], "negatedTerms": [], "phrases": [], "negatedPhrases": []}
    scored = collection.find({"group": 1, "$text": {"$search": "tag3 tag4"}}, {"s": SCORE}).explain()["queryPlanner"]["winningPlan"]
    assert "TEXT_OR" in stages(scored)
    assert collection.update_many({"group": 1, "$text": {"$search": "shared"}}, {"$set": {"more": "whales"}}).modified_count == 100
    assert collection.count_documents({"group": 1, "$text": {"$search": "whale"}}) == 100
    assert collection.delete_many({"group": 1, "$text": {"$search": "whale -tag0"}}).deleted_count == 80
    assert collection.count_documents({"group": 1, "$text": {"$search": "whale"}}) == 20
    assert is_valid(collection)


def test_an_index_that_is_built_over_documents_follows_what_is_written(collection):
    collection.insert_many([{"_id": n, "text": f"word{n} common"} for n in range(2000)])
    collection.create_index([("text", TEXT)])
    assert search(collection, "word1999 word7") == [7, 1999]
    assert collection.count_documents({"$text": {"$search": "common"}}) == 2000
    with collection.database.client.start_session() as session, session.start_transaction():
        collection.update_one({"_id": 7}, {"$set": {"text": "changed"}}, session=session)
        assert [thing["_id"] for thing in collection.find({"$text": {"$search": "changed"}}, session=session)] == [7]
        session.abort_transaction()
    assert search(collection, "word7") == [7]
    changed = collection.find_one_and_update({"$text": {"$search": "word7"}}, {"$set": {"text": "changed"}})
    assert changed["_id"] == 7
    assert search(collection, "word7 changed") == [7]
    assert is_valid(collection)


def test_what_cannot_be_asked_is_refused(articles):
    text = {"$text": {"$search": "coffee"}}
    for act, code in [
        (lambda: list(articles.find({"$nor": [text]})), 2),
        (lambda: list(articles.find({"subject": {"$elemMatch": text}})), 2),
        (lambda: list(articles.find({"$or": [text, {"views": 1}]})), 291),
        (lambda: list(articles.find({"$and": [text, text]})), 2),
        (lambda: list(articles.find(text).hint("subject_text")), 2),
        (lambda: list(articles.find(text).sort("$natural", 1)), 2),
        (lambda: list(articles.find({"$text": {"$search": "x", "$language": "klingon"}})), 2),
        (lambda: list(articles.find({}, {"s": SCORE})), 40218),
        (lambda: list(articles.find().sort([("s", SCORE)])), 40218),
        (lambda: list(articles.aggregate([{"$sort": {"views": 1}}, {"$match": text}])), 17313),
        (lambda: list(articles.aggregate([{"$facet": {"a": [{"$match": text}]}}])), 17313),
        (lambda: articles.database.create_collection("validated", validator=text), 224),
        (lambda: list(articles.database.nowhere.find(text)), 27),
    ]:
        assert refusal(act) == code
    articles.create_index("views")
    found = articles.find({"$or": [text, {"views": {"$gt": 150}}]})
    assert sorted(thing["_id"] for thing in found) == [1, 2, 5, 7]
    articles.database.create_collection("few", viewOn=articles.name, pipeline=[{"$match": {"views": {"$gt": 20}}}])
    assert refusal(lambda: list(articles.database.few.find(text))) == 17313
