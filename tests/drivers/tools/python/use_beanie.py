"""A warehouse in Beanie, on a replica set: `use_beanie.py URI DATABASE`. Prints what it read through it as JSON."""

import asyncio
import json
import sys
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Optional

import pymongo
from beanie import (
    BackLink, BulkWriter, DecimalAnnotation, Document, Granularity, Indexed, Link, TimeSeriesConfig, View, WriteRules, init_beanie,
)
from beanie.exceptions import RevisionIdWasChanged
from beanie.odm.queries.update import UpdateResponse
from beanie.operators import Inc, Push, RegEx, Set
from pydantic import BaseModel, Field
from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError


class Shelf(Document):
    name: Annotated[str, Indexed(unique=True)]
    goods: list[BackLink["Good"]] = Field(default_factory=list, json_schema_extra={"original_field": "shelf"})

    class Settings:
        name = "shelves"


class Good(Document):
    title: str
    price: DecimalAnnotation
    stock: int = 0
    labels: list[str] = []
    shelf: Optional[Link[Shelf]] = None

    class Settings:
        name = "goods"
        use_state_management = True
        use_revision = True
        is_root = True
        indexes = [
            [("title", pymongo.ASCENDING), ("price", pymongo.DESCENDING)],
            pymongo.IndexModel([("labels", pymongo.ASCENDING)], name="labels", partialFilterExpression={"stock": {"$gt": 0}}),
        ]


class Perishable(Good):
    days: int


class Reading(Document):
    ts: datetime = Field(default_factory=datetime.now)
    room: str
    celsius: float

    class Settings:
        name = "readings"
        timeseries = TimeSeriesConfig(time_field="ts", meta_field="room", granularity=Granularity.hours, expire_after_seconds=10**9)


class Totals(BaseModel):
    shelf: str = Field(alias="_id")
    stock: int


class Stock(View):
    label: str = Field(alias="_id")
    stock: int

    class Settings:
        source = Good
        name = "stock_by_label"
        pipeline = [
            {"$unwind": "$labels"},
            {"$group": {"_id": "$labels", "stock": {"$sum": "$stock"}}},
        ]


async def filled():
    """Two shelves, three goods on them and one on none."""
    high, low = Shelf(name="high"), Shelf(name="low")
    await Shelf.insert_many([high, low])
    high, low = await Shelf.find_one(Shelf.name == "high"), await Shelf.find_one(Shelf.name == "low")
    await Good(title="bolt", price=Decimal("0.15"), stock=900, labels=["iron", "small"], shelf=high).insert()
    await Good(title="beam", price=Decimal("120.00"), stock=4, labels=["iron"], shelf=low).insert()
    await Perishable(title="glue", price=Decimal("3.99"), stock=20, days=90, shelf=high).insert()
    # The shelf is written along with what stands on it.
    await Good(title="lamp", price=Decimal("18.00"), shelf=Shelf(name="window")).insert(link_rule=WriteRules.WRITE)


async def asked():
    """What queries, links, pipelines and a view find."""
    try:
        await Shelf(name="high").insert()
        taken = False
    except DuplicateKeyError:
        taken = True
    linked = await Good.find(Good.shelf.name == "high", fetch_links=True, with_children=True).sort(-Good.stock).to_list()
    [window] = await Shelf.find(Shelf.name == "window", fetch_links=True).to_list()
    lazy = await Good.find_one(Good.title == "beam")
    await lazy.fetch_all_links()
    totals = await Good.aggregate(
        [
            {"$lookup": {"from": "shelves", "localField": "shelf.$id", "foreignField": "_id", "as": "on"}},
            {"$unwind": "$on"},
            {"$group": {"_id": "$on.name", "stock": {"$sum": "$stock"}}},
            {"$sort": {"stock": -1}},
        ],
        projection_model=Totals,
    ).to_list()
    return {
        "taken": taken,
        "on high": [(good.title, good.shelf.name) for good in linked],
        "classes": sorted(type(good).__name__ for good in await Good.find(with_children=True).to_list()),
        "on window": [good.title for good in window.goods],
        "lazy": lazy.shelf.name,
        "totals": [(each.shelf, each.stock) for each in totals],
        "average": await Good.find(Good.stock > 0).avg(Good.stock),
        "most": await Good.find(RegEx(Good.title, "^b")).max(Good.stock),
        "count": await Good.find(with_children=True).count(),
        "labels": sorted(await Good.distinct("labels")),
        "by label": [(each.label, each.stock) for each in await Stock.find().sort(+Stock.label).to_list()],
    }


async def changed():
    """What updates, saved changes and a bulk leave."""
    bolt = await Good.find_one(Good.title == "bolt")
    unchanged = bolt.is_changed
    bolt.stock = 850
    differences = bolt.get_changes()
    stale = await Good.find_one(Good.title == "bolt")
    await bolt.save_changes()
    try:
        stale.stock = 1
        await stale.save_changes()
        clash = False
    except RevisionIdWasChanged:
        clash = True
    new = await Good.find_one(Good.title == "beam").update(
        Inc({Good.stock: 6}), Push({Good.labels: "long"}), response_type=UpdateResponse.NEW_DOCUMENT
    )
    await Good.find_one(Good.title == "rope").upsert(
        Set({Good.price: 5}), on_insert=Good(title="rope", price=Decimal("6.50"), stock=7, labels=["hemp"])
    )
    async with BulkWriter() as bulk:
        await Good.find_one(Good.title == "rope", bulk_writer=bulk).update(Set({Good.stock: 70}), bulk_writer=bulk)
        await Good.insert_one(Good(title="nail", price=Decimal("0.05"), stock=1), bulk_writer=bulk)
    return {
        "unchanged": unchanged,
        "differences": differences,
        "clash": clash,
        "new": (new.stock, new.labels),
        "stock": {good.title: good.stock for good in await Good.find(with_children=True).sort(Good.title).to_list()},
    }


async def transacted(client):
    """Goods that are moved in a transaction: one that is taken back and one that is committed."""
    async with client.start_session() as session:
        try:
            async with await session.start_transaction():
                await Good.find_one(Good.title == "bolt", session=session).update(Inc({Good.stock: -100}), session=session)
                inside = (await Good.find_one(Good.title == "bolt", session=session)).stock
                raise ValueError("taken back")
        except ValueError:
            back = (await Good.find_one(Good.title == "bolt")).stock
        async with await session.start_transaction():
            await Good.find_one(Good.title == "bolt", session=session).update(Inc({Good.stock: -50}), session=session)
            await Good(title="screw", price=Decimal("0.20"), stock=50).insert(session=session)
    return {"inside": inside, "back": back, "after": [
        (good.title, good.stock) for good in await Good.find({"title": {"$in": ["bolt", "screw"]}}).sort(Good.title).to_list()
    ]}


async def measured():
    """What a time series has after measurements were taken, moved and deleted."""
    noon = datetime(2024, 5, 1, 12)
    await Reading.insert_many([Reading(ts=noon.replace(hour=12 + hour), room="hall", celsius=20 + hour) for hour in range(4)])
    await Reading(ts=noon, room="attic", celsius=30).insert()
    await Reading.find(Reading.room == "attic").update(Set({Reading.room: "cellar"}))
    await Reading.find(Reading.ts > noon.replace(hour=14)).delete()
    return [(each.room, each.celsius) for each in await Reading.find().sort(-Reading.ts, +Reading.celsius).to_list()]


async def main(uri, name):
    client = AsyncMongoClient(uri)
    await init_beanie(database=client[name], document_models=[Shelf, Good, Perishable, Stock, Reading], recreate_views=True)
    await filled()
    said = {"asked": await asked(), "changed": await changed(), "transacted": await transacted(client), "measured": await measured()}
    await Good.find(Good.stock < 5, with_children=True).delete()
    said["left"] = [good.title for good in await Good.find(with_children=True).sort(Good.title).to_list()]
    await client.close()
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
