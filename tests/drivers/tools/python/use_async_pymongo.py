"""PyMongo's asynchronous client, on a replica set: `use_async_pymongo.py URI DATABASE`. Prints what it read as JSON."""

import asyncio
import json
import sys

from gridfs.asynchronous import AsyncGridFSBucket
from pymongo import AsyncMongoClient, InsertOne, UpdateOne
from pymongo.errors import OperationFailure


async def followed(things):
    """Kinds of the changes that a stream tells while another task makes them, and the state before one of them."""
    await things.database.create_collection(things.name, changeStreamPreAndPostImages={"enabled": True})
    async with await things.watch(full_document_before_change="required") as stream:

        async def change():
            await things.insert_one({"_id": "new", "n": 1})
            await things.replace_one({"_id": "new"}, {"n": 2})

        changing = asyncio.create_task(change())
        told = [await stream.next() for _ in range(2)]
        await changing
    return [(event["operationType"], event.get("fullDocumentBeforeChange", {}).get("n")) for event in told]


async def together(things):
    """A hundred tasks that count one document up at once, and as many queries between them."""
    await things.insert_one({"_id": "counter", "n": 0})

    async def count():
        return (await things.find_one_and_update({"_id": "counter"}, {"$inc": {"n": 1}}, return_document=True))["n"]

    counted = await asyncio.gather(*[count() for _ in range(100)])
    return (sorted(counted) == list(range(1, 101)), (await things.find_one({"_id": "counter"}))["n"])


async def ended(things):
    """How the server ends a query that takes longer than it may."""
    await things.insert_many([{"group": number} for number in range(2000)])
    slow = [{"$lookup": {"from": things.name, "let": {"g": "$group"}, "as": "all", "pipeline": [
        {"$match": {"$expr": {"$gt": [{"$add": ["$group", "$$g"]}, -1]}}}, {"$count": "n"},
    ]}}, {"$count": "n"}]
    try:
        await (await things.aggregate(slow, maxTimeMS=20)).to_list()
        return None
    except OperationFailure as error:
        return (error.code, type(error).__name__)


async def main(uri, name):
    async with AsyncMongoClient(uri) as client:
        database = client[name]
        wrote = await client.bulk_write([
            InsertOne(namespace=f"{name}.first", document={"_id": 1}),
            InsertOne(namespace=f"{name}.second", document={"_id": 1}),
            UpdateOne(namespace=f"{name}.first", filter={"_id": 1}, update={"$set": {"a": 5}}),
        ])
        async with client.start_session() as session:
            async with await session.start_transaction():
                await database.first.insert_one({"_id": 2}, session=session)
                outside = await database.first.count_documents({})
        bucket = AsyncGridFSBucket(database)
        await bucket.upload_from_stream("file", b"z" * 600_000)
        said = {
            "bulk": (wrote.inserted_count, wrote.modified_count),
            "outside": (outside, await database.first.count_documents({})),
            "file": len(await (await bucket.open_download_stream_by_name("file")).read()),
            "followed": await followed(database.watched),
            "together": await together(database.counters),
            "ended": await ended(database.many),
        }
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
