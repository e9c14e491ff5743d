"""A REST service of Eve: `use_eve.py URI DATABASE`. Prints what it answers as JSON."""

import json
import sys

from eve import Eve

BOOKS = {
    "schema": {
        "title": {"type": "string", "required": True, "unique": True, "minlength": 2},
        "pages": {"type": "integer", "min": 1},
        "tags": {"type": "list", "schema": {"type": "string"}},
        "author": {"type": "objectid", "data_relation": {"resource": "authors", "embeddable": True}},
        "shop": {"type": "point"},
    },
    "versioning": True,
    "mongo_indexes": {"pages": [("pages", -1)], "shop": [("shop", "2dsphere")], "text": [("title", "text")]},
}
AUTHORS = {"schema": {"name": {"type": "string", "required": True}}, "soft_delete": True}
TAGS = {
    "datasource": {
        "source": "books",
        "aggregation": {"pipeline": [
            {"$match": {"pages": {"$gte": "$least"}}}, {"$unwind": "$tags"},
            {"$group": {"_id": "$tags", "n": {"$sum": 1}}}, {"$sort": {"n": -1, "_id": 1}},
        ]},
    },
}


def settings(uri, name):
    return {
        "MONGO_URI": f"{uri}{name}",
        "DOMAIN": {"books": BOOKS, "authors": AUTHORS, "tags": TAGS},
        "RESOURCE_METHODS": ["GET", "POST", "DELETE"],
        "ITEM_METHODS": ["GET", "PATCH", "PUT", "DELETE"],
        "PAGINATION_DEFAULT": 2,
        "MONGO_QUERY_BLACKLIST": ["$where"],
        "RENDERERS": ["eve.render.JSONRenderer"],
    }


def listed(client, path, **query):
    answer = client.get(path, query_string={name: value if isinstance(value, str) else json.dumps(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def found(client):
    """What filters and an aggregation find."""
    near = {"shop": {"$geoWithin": {"$centerSphere": [[13.4, 52.51], 0.001]}}}
    page = listed(client, "/books", sort="-pages", page="1")
    some = listed(client, "/books", projection={"title": 1}, max_results="1")["_items"][0]
    return {
        "sorted": ([book["title"] for book in page["_items"]], page["_meta"]["total"]),
        "near": [book["title"] for book in listed(client, "/books", where=near)["_items"]],
        "text": [book["title"] for book in listed(client, "/books", where={"$text": {"$search": "heavens"}})["_items"]],
        "projected": sorted(key for key in some if key[0] != "_"),
        "tags": [(each["_id"], each["n"]) for each in listed(client, "/tags", aggregate={"$least": 50}, max_results="10")["_items"]],
    }


def main(uri, name):
    client = Eve(settings=settings(uri, name)).test_client()
    author = client.post("/authors", json={"name": "Ada"}).get_json()["_id"]
    made = client.post("/books", json=[
        {"title": "Notes", "pages": 66, "tags": ["engines", "numbers"], "author": author, "shop": {"type": "Point", "coordinates": [13.4, 52.5]}},
        {"title": "Heavens", "pages": 621, "tags": ["skies", "numbers"]},
        {"title": "Ideals", "pages": 42, "tags": ["numbers"]},
    ])
    taken = client.post("/books", json={"title": "Notes", "pages": 0})
    finds = found(client)
    first = listed(client, "/books", where={"title": "Notes"}, embedded={"author": 1})["_items"][0]
    path = f"/books/{first['_id']}"
    stale = client.patch(path, json={"pages": 70}, headers={"If-Match": "another"})
    patched = client.patch(path, json={"pages": 70}, headers={"If-Match": first["_etag"]})
    replaced = client.put(path, json={"title": "Notes II", "pages": 71}, headers={"If-Match": patched.get_json()["_etag"]})
    writer = client.get(f"/authors/{author}").get_json()
    said = {
        "found": finds,
        "made": [each["_status"] for each in made.get_json()["_items"]],
        "taken": (taken.status_code, sorted(taken.get_json()["_issues"])),
        "author": first["author"]["name"],
        "stale": stale.status_code,
        "patched": (patched.status_code, replaced.status_code),
        "versions": [version["pages"] for version in listed(client, path, version="all", max_results="10")["_items"]],
        "deleted": client.delete(f"/authors/{author}", headers={"If-Match": writer["_etag"]}).status_code,
        "gone": client.get(f"/authors/{author}").status_code,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
