"""Makes the pictures of the console's views that docs/console.md shows: `make pictures`, or `pictures.py VIEW...` for some of them.

A server with a small shop is started, its views are opened in a headless Chromium, and each is photographed when it has what it is to show."""

import base64
import pathlib
import random
import sys
import tempfile
import threading
import time

from pymongo import MongoClient

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from chromium import Chromium  # noqa: E402  (found through the line above)
from conftest import ENGINE, work  # noqa: E402
from quarry_process import Quarry  # noqa: E402

PICTURES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "pictures"
WIDTH = 1100
HEIGHTS_MAX = {"operations": 1500}
HEIGHT_MAX = 1010
# How long the load runs before charts have something to show.
LOAD_SECONDS = 150
CITIES = ["Lisbon", "Porto", "Faro", "Braga", "Évora", "Coimbra"]


def fill(client):
    """Orders with two indexes of which one is superfluous, customers, and some slow questions."""
    draw = random.Random(1)
    shop = client.shop
    shop.orders.insert_many(
        [
            {"_id": n, "customer": draw.randrange(2000), "city": draw.choice(CITIES), "total": round(draw.uniform(5, 300), 2), "lines": draw.randrange(1, 9)}
            for n in range(60_000)
        ]
    )
    shop.customers.insert_many([{"_id": n, "name": f"Customer {n}", "city": draw.choice(CITIES)} for n in range(2000)])
    shop.orders.create_index("customer")
    shop.orders.create_index([("customer", 1), ("total", -1)])
    shop.customers.create_index("city")
    shop.customers.create_index("name", unique=True)
    client.admin.command("setParameter", 1, slowOpThresholdMs=0)
    list(shop.orders.find({"city": "Faro", "total": {"$gt": 250}}).sort("total", -1).limit(20))
    list(shop.orders.aggregate([{"$match": {"total": {"$gt": 100}}}, {"$group": {"_id": "$city", "sum": {"$sum": "$total"}}}]))
    list(shop.customers.find({"name": {"$regex": "9$"}}))
    shop.orders.update_many({"city": "Braga", "lines": 8}, {"$set": {"large": True}})
    list(shop.orders.find({"$or": [{"city": "Porto", "total": {"$gt": 299}}, {"lines": 1, "total": {"$lt": 6}}]}))
    client.admin.command("setParameter", 1, slowOpThresholdMs=10000)


def overview(page):
    page.wait_for("document.querySelectorAll('#kinds tr').length > 2")


def history(page):
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.wait_for("document.querySelectorAll('#history canvas').length > 1")


def operations(page):
    page.wait_for("document.querySelectorAll('#slow tr[data-key]').length > 1")
    page.evaluate("[...document.querySelectorAll('#slow tr[data-key]')].find(row => row.textContent.includes('aggregate')).click()")
    page.wait_for("document.querySelectorAll('.waterfall div').length > 1")


def collections(page):
    page.click("#collectionRows tr[data-ns='shop.orders']")
    page.wait_for("document.querySelectorAll('#indexes tr[data-index]').length > 2")


def adviser(page):
    page.wait_for("document.getElementById('server').textContent")
    page.click("#advise")
    page.wait_for("document.getElementById('adviserState').textContent.includes('looked at')")


def data(page):
    for name, value in (("filter", "{customer: 7}"), ("sort", "{total: -1}")):
        field = f"document.querySelector('#query [name={name}]')"
        page.wait_for(f"Boolean({field})")
        page.evaluate(f"(field => {{ field.value = '{value}'; field.dispatchEvent(new Event('input', {{bubbles: true}})); }})({field})")
    page.evaluate("document.getElementById('query').requestSubmit()")
    page.wait_for("document.querySelectorAll('#documents pre').length > 1")
    page.click("#explain")
    page.wait_for("document.querySelector('#plan .tree')?.textContent ?? ''")
    # What is offered as somebody types the sort.
    offered = "document.querySelector('#suggestions:not([hidden])')?.textContent ?? ''"
    page.evaluate("document.querySelector('#query [name=sort]').focus()")
    page.evaluate("document.querySelector('#query [name=sort]').select()")
    page.press("{")
    page.wait_for(offered, lambda text: "indexed" in text)
    page.press("ArrowDown")


VIEWS = {
    "overview": ("", overview),
    "history": ("#history", history),
    "operations": ("#operations", operations),
    "collections": ("#collections", collections),
    "adviser": ("#adviser", adviser),
    "data": ("#data/shop/orders", data),
}


def photograph(server, view):
    place, show = VIEWS[view]
    height = HEIGHTS_MAX.get(view, HEIGHT_MAX)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, Chromium(directory, server.admin_url + place) as page:
        page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=height, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setScrollbarsHidden", hidden=True)
        show(page)
        # The page draws its figures anew each second.
        time.sleep(2)
        height = min(height, page.evaluate("Math.ceil(document.body.getBoundingClientRect().bottom + scrollY)"))
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        taken = page.call("Page.captureScreenshot", format="png", clip=clip)
        assert not page.errors, page.errors
    (PICTURES / f"console-{view}.png").write_bytes(base64.b64decode(taken["data"]))
    print(f"{view}: {WIDTH} x {height}")


def main(views):
    with tempfile.TemporaryDirectory() as directory:
        server = Quarry(pathlib.Path(directory) / "data", ENGINE, ["--adminPort", "0"]).start()
        ended = threading.Event()
        worker = threading.Thread(target=work, args=(server.uri, ended))
        try:
            with MongoClient(server.uri) as client:
                fill(client)
            worker.start()
            if {"overview", "history"} & set(views):
                time.sleep(LOAD_SECONDS)
            for view in views:
                photograph(server, view)
        finally:
            ended.set()
            if worker.ident is not None:
                worker.join()
            assert server.stop() == 0


if __name__ == "__main__":
    main(sys.argv[1:] or list(VIEWS))
