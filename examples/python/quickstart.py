"""Connects, writes, reads, indexes and aggregates with pymongo.

    pip install pymongo
    python examples/python/quickstart.py mongodb://127.0.0.1:27017/

Uses the database `quickstart_python` and drops it at the end.
"""

import sys

from pymongo import ASCENDING, DESCENDING, MongoClient, WriteConcern


def main():
    client = MongoClient(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017/")
    client.drop_database("quickstart_python")
    books = client.quickstart_python.books
    try:
        # Create. `_id` is made by the driver unless the document has one.
        books.insert_many(
            [
                {"_id": 1, "title": "Dune", "author": "Herbert", "year": 1965, "tags": ["desert", "spice"]},
                {"_id": 2, "title": "Ubik", "author": "Dick", "year": 1969, "tags": ["time"]},
                {"_id": 3, "title": "Valis", "author": "Dick", "year": 1981, "tags": []},
            ]
        )

        # Read: a filter, a projection, an order.
        for book in books.find({"author": "Dick"}, {"title": 1, "_id": 0}).sort("year", DESCENDING):
            print("by Dick:", book["title"])

        # Update: {w: "majority"} returns once the write survives a power loss.
        durable = books.with_options(write_concern=WriteConcern(w="majority"))
        result = durable.update_one({"_id": 1}, {"$push": {"tags": "worms"}, "$inc": {"read": 1}})
        print("changed:", result.modified_count)

        # Index, and see that the plan uses it.
        books.create_index([("author", ASCENDING), ("year", DESCENDING)], name="author_year")
        plan = books.find({"author": "Dick"}).explain()["queryPlanner"]["winningPlan"]
        print("plan:", plan["stage"], "over", plan["inputStage"]["stage"])

        # Aggregate.
        for group in books.aggregate(
            [
                {"$group": {"_id": "$author", "books": {"$sum": 1}, "first": {"$min": "$year"}}},
                {"$sort": {"_id": 1}},
            ]
        ):
            print(f"{group['_id']}: {group['books']} since {group['first']}")

        # Delete.
        print("deleted:", books.delete_many({"tags": {"$size": 0}}).deleted_count)
    finally:
        client.drop_database("quickstart_python")


if __name__ == "__main__":
    main()
