"""The console page in a headless Chromium over a live load: its numbers move and agree with getOpTiming's."""

import pytest
from pymongo import MongoClient

from chromium import Chromium

# The row of an operation: its cells' text, its count since the start, and its bar's parts in percent.
ROW = """(() => {
  const row = document.querySelector('tr[data-operation=insert]');
  if (!row) return null;
  const parts = [...row.querySelectorAll('.stack i')];
  return { cells: [...row.cells].map(cell => cell.textContent), count: Number(row.dataset.count),
    parts: parts.map(part => [part.title.split(':')[0], parseFloat(part.style.width)]),
    drawn: parts.reduce((sum, part) => sum + part.getBoundingClientRect().width, 0),
    width: row.querySelector('.stack').getBoundingClientRect().width };
})()"""
HEAT = """(() => {
  const canvas = document.getElementById('heat');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, place) => place % 4 == 3 && value > 0).length;
})()"""
WATERFALL = """[...document.querySelectorAll('#waterfall div')].map(line => {
  const part = line.querySelector('u i');
  return [line.querySelector('b').textContent, parseFloat(part.style.left), parseFloat(part.style.width)];
})"""


@pytest.fixture
def page(server, tmp_path):
    with Chromium(tmp_path, server.admin_url) as chromium:
        yield chromium


def test_the_numbers_move_and_agree(server, load, page):
    with load():
        first = page.wait_for(ROW, lambda row: row and float(row["cells"][1]) > 0)
        moved = page.wait_for(ROW, lambda row: row["count"] > first["count"] and row["cells"][1] != first["cells"][1])
        assert float(moved["cells"][1]) > 0
        page.evaluate("get('kind').value = 'insert', showHeat()")
        painted = page.wait_for(HEAT)
        page.wait_for(HEAT, lambda pixels: pixels > painted)
        assert "shop.things" in page.evaluate("get('collections').textContent")
        assert "find shop.things" in page.evaluate("get('shapes').textContent")
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
    shown = [f"{wall[quantile]:.1f} µs" if wall[quantile] < 1000 else f"{wall[quantile] / 1000:.1f} ms"
             for quantile in ("p50Micros", "p99Micros")]
    shares = {name: 100 * phase["totalMicros"] / wall["totalMicros"] for name, phase in phases.items()}
    return (
        row["cells"][2:4] == shown
        and dict(row["parts"]) == pytest.approx(shares, abs=0.01)
        and sum(shares.values()) == pytest.approx(100, abs=0.01)
        and row["drawn"] == pytest.approx(row["width"], rel=0.05)
    )


def test_a_slow_operation_has_a_waterfall(server, page):
    with MongoClient(server.uri) as client:
        client.shop.things.insert_many([{"_id": number, "text": "ab" * 40} for number in range(3000)])
        client.admin.command("setParameter", 1, slowOpThresholdMs=0)
        list(client.shop.things.find({"text": {"$regex": "b.*c$"}}))
        client.admin.command("setParameter", 1, slowOpThresholdMs=10000)
    page.wait_for("[...document.querySelectorAll('#slow tr')].some(row => row.textContent.includes('COLLSCAN'))")
    page.evaluate("[...document.querySelectorAll('#slow tr')].find(row => row.textContent.includes('COLLSCAN')).click()")
    lines = page.evaluate(WATERFALL)
    assert {"match", "engine_scan"} <= {name for name, _, _ in lines}
    end = 0
    for name, left, width in lines:
        assert left == pytest.approx(end, abs=0.01), name
        end = left + width
    assert end == pytest.approx(100, abs=0.1)
    assert "docsExamined" in page.evaluate("get('waterfall').textContent")
