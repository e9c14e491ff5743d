"""Motor's client, on a replica set: `use_motor.py URI DATABASE`. Prints what it read through it as JSON."""

import asyncio
import json
import sys

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridFSBucket
from pymongo.errors import BulkWriteError


async def followed(things):
    """Kinds and keys of the changes that a stream tells while another task makes them."""
    async with things.watch(full_document="updateLookup") as stream:

        async def change():
            await things.insert_one({"_id": "new", "n": 1})
            await things.update_one({"_id": "new"}, {"$set": {"n": 2}})
            await things.delete_one({"_id": "new"})

        changing = asyncio.create_task(change())
        told = [await stream.next() for _ in range(3)]
        await changing
    return [(event["operationType"], event["documentKey"]["_id"]) for event in told]


async def transacted(client, things):
    """The number of documents inside a transaction, and after its end and another one's."""
    async with await client.start_session() as session:
        session.start_transaction()
        await things.delete_many({"n": {"$lt": 50}}, session=session)
        inside = await things.count_documents({}, session=session)
        await session.abort_transaction()

        async def move(own):
            await things.delete_one({"n": 0}, session=own)
            await client[things.database.name].moved.insert_one({"n": 0}, session=own)
            return "moved"

        moved = await session.with_transaction(move)
    return (inside, moved, await things.count_documents({}))


async def filed(database):
    """A file that is written in pieces and read from its middle."""
    bucket = AsyncIOMotorGridFSBucket(database, chunk_size_bytes=1000)
    file = bucket.open_upload_stream("letters.txt", metadata={"kind": "text"})
    for letter in b"abcdefghij":
        await file.write(bytes([letter]) * 700)
    await file.close()
    reading = await bucket.open_download_stream_by_name("letters.txt")
    reading.seek(3500)
    middle = await reading.read(3)
    return (reading.length, middle.decode(), [each.filename async for each in bucket.find({"metadata.kind": "text"})])


async def main(uri, name):
    client = AsyncIOMotorClient(uri)
    things = client[name].things
    await things.insert_many([{"n": number, "group": number % 7} for number in range(100)])
    await things.create_index("n", unique=True)
    try:
        await things.insert_many([{"n": 100}, {"n": 5}, {"n": 101}], ordered=False)
        bulk = None
    except BulkWriteError as error:
        bulk = (error.details["nInserted"], [each["code"] for each in error.details["writeErrors"]])
    groups = things.aggregate([{"$group": {"_id": "$group", "n": {"$sum": "$n"}}}, {"$sort": {"_id": 1}}], batchSize=2)
    said = {
        "bulk": bulk,
        "groups": [each["n"] async for each in groups if each["_id"] is not None],
        "last": [each["n"] for each in await things.find().sort("n", -1).batch_size(4).to_list(length=10)],
        "replaced": (await things.find_one_and_update({"n": 7}, {"$inc": {"n": 1000}}, return_document=True))["n"],
        "followed": await followed(client[name].watched),
        "transacted": await transacted(client, things),
        "filed": await filed(client[name]),
    }
    client.close()
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
