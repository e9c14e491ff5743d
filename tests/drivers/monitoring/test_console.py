"""The console's first view in a headless Chromium over a live load: its numbers move and agree with the commands'."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError

from chromium import Chromium
from pictures import PICTURES, VIEWS

# The row of an operation: its cells' text, its count since the start, and its bar's parts in percent.
ROW = """(() => {
  const row = document.querySelector('tr[data-operation=insert]');
  if (!row) return null;
  const parts = [...row.querySelectorAll('.stack i')];
  return { cells: [...row.cells].map(cell => cell.textContent), count: Number(row.dataset.count),
    parts: parts.map(part => [part.dataset.tip.split(':')[0], parseFloat(part.style.width)]),
    drawn: parts.reduce((sum, part) => sum + part.getBoundingClientRect().width, 0),
    width: row.querySelector('.stack').getBoundingClientRect().width };
})()"""
HEAT = """(() => {
  const canvas = document.getElementById('heat');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, place) => place % 4 == 3 && value > 0).length;
})()"""
CHOOSE = "(select => { select.value = %r; select.dispatchEvent(new Event('change')); })(document.getElementById(%r))"


def fact(name):
    return f"document.querySelector('[data-fact=\"{name}\"]')?.textContent ?? ''"


@pytest.fixture
def page(server, tmp_path):
    with Chromium(tmp_path, server.admin_url) as chromium:
        yield chromium


def test_the_numbers_move_and_agree(server, load, page):
    with load():
        first = page.wait_for(ROW, lambda row: row and float(row["cells"][1]) > 0)
        moved = page.wait_for(ROW, lambda row: row["count"] > first["count"] and row["cells"][1] != first["cells"][1])
        assert float(moved["cells"][1]) > 0
        page.evaluate(CHOOSE % ("insert", "heatKind"))
        painted = page.wait_for(HEAT)
        page.wait_for(HEAT, lambda pixels: pixels > painted)
        assert "shop.things" in page.text("#busiest")
        assert "find shop.things" in page.text("#shapes")
    with MongoClient(server.uri) as client:
        whole = client.admin.command("getOpTiming", window="sinceStart")["operations"]["insert"]["count"]
        page.wait_for(ROW, lambda row: row["count"] == whole)
        page.wait_for(ROW, lambda row: agrees(row, client))
    # A page that works offline asks its own server and nobody else.
    assert all(url.startswith(server.admin_url) for url in page.requested), page.requested
    assert not page.errors


def agrees(row, client):
    """Whether the row's quantiles and shares are the command's; false while a window moves between the two."""
    phases = client.admin.command("getOpTiming", window="lastMinute")["operations"]["insert"]["phases"]
    wall = phases.pop("wall")
    shown = [f"{tenths(wall[quantile])} µs" if wall[quantile] < 1000 else f"{tenths(wall[quantile] / 1000)} ms"
             for quantile in ("p50Micros", "p99Micros")]
    shares = {name: 100 * phase["totalMicros"] / wall["totalMicros"] for name, phase in phases.items()}
    return (
        row["cells"][2:4] == shown
        and dict(row["parts"]) == pytest.approx(shares, abs=0.01)
        and sum(shares.values()) == pytest.approx(100, abs=0.01)
        and row["drawn"] == pytest.approx(row["width"], rel=0.05)
    )


def tenths(number):
    """As a browser's toFixed(1) rounds it: 61.25 up, which Python's format takes to the even digit."""
    return Decimal(number).quantize(Decimal("0.1"), ROUND_HALF_UP)


def test_the_heat_map_opens_on_the_busiest_kind(server, page):
    with MongoClient(server.uri) as client:
        client.shop.things.insert_one({"_id": 1})
        for _ in range(200):
            client.shop.things.distinct("_id")
    page.wait_for("document.getElementById('heatKind').value", lambda kind: kind == "distinct")
    page.wait_for("document.querySelectorAll('#legend i').length", lambda count: count > 15)


def test_facts_are_told_and_what_has_not_happened_is_told_in_words(server, page):
    with MongoClient(server.uri) as client:
        status = client.admin.command("serverStatus")
        page.wait_for(fact("Version"), lambda text: status["quarry"]["version"] in text and status["quarry"]["engine"] in text)
        assert "none" in page.evaluate(fact("Last backup"))
        page.wait_for(fact("Errors"), lambda text: "none since the start" in text)
        client.shop.things.insert_one({"_id": 1})
        with pytest.raises(DuplicateKeyError):
            client.shop.things.insert_one({"_id": 1})
        page.wait_for(fact("Errors"), lambda text: "1 of code 11000" in text)
        page.wait_for(fact("Processor"), lambda text: "% of one" in text)
        for name, words in {"Memory": "MiB", "Disk": "free", "Connections": "active", "Journal": "syncs"}.items():
            assert words in page.evaluate(fact(name)), name
        # The parts of the memory fill their bar.
        widths = page.evaluate("[...document.querySelectorAll('[data-fact=Memory] .stack i')].map(part => parseFloat(part.style.width))")
        assert sum(widths) == pytest.approx(100, abs=0.1)
    assert not page.errors


def test_the_history_outlives_a_server_that_was_killed(start, tmp_path):
    server = start("--setParameter", "historyStepMillis=100")
    recorded = """fetch(`history.json?from=${Date.now() - 90000}&points=1000&series=connections`).then(answer => answer.json())
        .then(past => past.series.connections?.filter(value => value !== null).length ?? 0)"""
    drawn = """(() => {
      const canvas = document.querySelector('[data-chart="Memory"] canvas');
      if (!canvas?.width) return 0;
      const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      let count = 0;
      for (let at = 0; at < pixels.length; at += 4) count += pixels[at + 3] > 0 && pixels[at + 2] > pixels[at] + 60;
      return count;
    })()"""
    with Chromium(tmp_path, server.admin_url) as page:
        page.wait_for(recorded, lambda count: count >= 20)
        server.kill()
    server.start()
    another = tmp_path / "another"
    another.mkdir()
    with Chromium(another, server.admin_url + "#history") as page:
        assert page.wait_for(recorded) >= 20
        page.evaluate(CHOOSE % ("900000", "span"))
        page.wait_for(drawn)
        window = page.text("#window")
        page.drag('[data-chart="Memory"] .u-over', 0.9, 0.99)
        page.wait_for("!document.getElementById('zoomOut').hidden")
        assert page.text("#window") != window
        page.click("#zoomOut")
        page.wait_for("document.getElementById('zoomOut').hidden")
        page.evaluate(CHOOSE % ("1", "beside"))
        page.wait_for("document.querySelector('[data-chart=\"Memory\"] .u-legend').textContent.includes('beside')")
        assert not page.errors


def test_every_view_has_its_picture_in_the_manual(server, page):
    views = page.evaluate("[...document.querySelectorAll('nav [data-view]')].map(tab => tab.dataset.view)")
    assert sorted(views) == sorted(VIEWS)
    manual = (PICTURES.parent / "console.md").read_text()
    for view in views:
        picture = PICTURES / f"console-{view}.png"
        assert picture.read_bytes().startswith(b"\x89PNG") and f"(pictures/{picture.name})" in manual, view
    assert len(list(PICTURES.glob("console-*.png"))) == len(views)


def test_keys_phones_and_the_dark(server, load, page):
    visible = "document.querySelector('section:not([hidden])').id"
    with load():
        page.wait_for(ROW)
        page.press("3")
        page.wait_for(visible, lambda view: view == "operations")
        page.press("/")
        page.wait_for("document.activeElement.id", lambda name: name == "slowFilter")
        page.evaluate("document.activeElement.blur()")
        page.press("p")
        page.wait_for("document.getElementById('pause').getAttribute('aria-pressed')", lambda pressed: pressed == "true")
        page.press("p")
        for scheme, is_dark in (("dark", True), ("light", False)):
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            page.wait_for("parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]) < 128", lambda dark: dark == is_dark)
        page.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
        for number in range(1, 7):
            page.press(str(number))
            page.wait_for("document.documentElement.scrollWidth", lambda width: width <= 390)
    assert not page.errors
