"""A stable in ODMantic, on a replica set: `use_odmantic.py URI DATABASE`. Prints what it read through it as JSON."""

import asyncio
import datetime
import json
import sys

from motor.motor_asyncio import AsyncIOMotorClient
from odmantic import AIOEngine, EmbeddedModel, Field, Index, Model, Reference, SyncEngine
from odmantic.exceptions import DuplicateKeyError
from odmantic.query import desc
from pymongo import MongoClient


class Owner(Model):
    name: str = Field(unique=True)


class Race(EmbeddedModel):
    place: str
    rank: int


class Horse(Model):
    name: str
    born: datetime.datetime
    weight: float = 0.0
    owner: Owner = Reference()
    races: list[Race] = []
    last: Race = Race(place="none", rank=0)
    model_config = {"collection": "horses", "indexes": lambda: [Index(Horse.name, desc(Horse.born), name="by_name")]}


async def waited(uri, name):
    """What the asynchronous engine finds, and what its transactions leave."""
    client = AsyncIOMotorClient(uri)
    engine = AIOEngine(client=client, database=name)
    await engine.configure_database([Owner, Horse])
    ann, bob = Owner(name="Ann"), Owner(name="Bob")
    ascot = Race(place="Ascot", rank=2)
    await engine.save_all([
        Horse(name="Comet", born=datetime.datetime(2018, 4, 1), weight=480.5, owner=ann, races=[ascot], last=ascot),
        Horse(name="Dune", born=datetime.datetime(2020, 5, 2), weight=510, owner=ann, races=[ascot, Race(place="Epsom", rank=1)]),
        Horse(name="Ember", born=datetime.datetime(2015, 6, 3), weight=455, owner=bob),
    ])
    try:
        await engine.save(Owner(name="Ann"))
        taken = False
    except DuplicateKeyError:
        taken = True
    async with engine.transaction() as transaction:
        await transaction.save(Horse(name="Fern", born=datetime.datetime(2021, 1, 1), owner=bob))
        inside = await transaction.count(Horse)
        await transaction.abort()
    async with engine.transaction() as transaction:
        horse = await transaction.find_one(Horse, Horse.name == "Ember")
        horse.weight = 460
        await transaction.save(horse)
        await transaction.commit()
    found = await engine.find(Horse, Horse.weight > 470, sort=desc(Horse.weight))
    last = await engine.find_one(Horse, Horse.last.rank == 2)
    said = {
        "taken": taken,
        "inside": inside,
        "count": await engine.count(Horse),
        "heavy": [(horse.name, horse.owner.name) for horse in found],
        "last": (last.name, last.last.place),
        "at Epsom": [horse.name for horse in await engine.find(Horse, {"races.place": "Epsom"})],
        "paged": [horse.name async for horse in engine.find(Horse, sort=Horse.name, skip=1, limit=1)],
        "groups": await engine.get_collection(Horse).aggregate(
            [{"$group": {"_id": None, "weight": {"$sum": "$weight"}, "oldest": {"$min": "$born"}}}, {"$unset": ["_id", "oldest"]}]
        ).to_list(length=None),
    }
    client.close()
    return said


def synchronous(uri, name):
    """What the other engine finds of it and changes."""
    with MongoClient(uri) as client:
        engine = SyncEngine(client=client, database=name)
        comet = engine.find_one(Horse, Horse.name == "Comet")
        comet.races.append(Race(place="York", rank=3))
        engine.save(comet)
        engine.remove(Horse, Horse.name == "Dune")
        return [(horse.name, len(horse.races), horse.weight) for horse in engine.find(Horse, sort=Horse.name)]


def main(uri, name):
    said = asyncio.run(waited(uri, name))
    said["left"] = synchronous(uri, name)
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
