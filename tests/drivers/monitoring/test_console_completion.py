"""What the console's data view offers to whoever types a query, in a headless Chromium."""

import json

import pytest
from pymongo import MongoClient

from chromium import Chromium

# A place in a text is marked by a bar. `known` has what a small shop has.
OFFERED = """import('./completion.js').then(async ({ suggestions, noteFields, noteIndexes }) => {
  const operators = await (await fetch('language.json', { headers: { 'X-Quarry-Console': '1' } })).json(), known = { fields: new Map(), operators };
  noteIndexes(known.fields, [{ key: { _id: 1 } }, { key: { price: 1, 'address.city': -1 } }, { key: { 'wild.$**': 1 } }, { key: { _fts: 'text', _ftsx: 1 } }]);
  noteFields(known.fields, { _id: { $oid: '0' }, price: 1, name: 'x', 'with space': 1, address: { city: 'x', zip: 1 }, items: [{ sku: 1 }, { sku: 2, count: 3 }] });
  return KINDS.map(([kind, text]) => {
    const caret = text.indexOf('|');
    return suggestions(kind, text.replace('|', ''), caret, known)?.options.map(one => one.name) ?? [];
  });
})"""
ACCEPTED = """import('./completion.js').then(({ suggestions, accepted }) => {
  const known = { fields: new Map(FIELDS.map(name => [name, {}])), operators: { ofField: ['$gt'], topLevel: ['$or'], expression: ['$add'], projection: [] } };
  return TEXTS.map(([kind, text]) => {
    const caret = text.indexOf('|'), plain = text.replace('|', ''), offer = suggestions(kind, plain, caret, known);
    const edit = accepted(plain, offer, offer.options[0].name), put = plain.slice(0, edit.from) + edit.text + plain.slice(edit.to);
    return put.slice(0, edit.caret) + '|' + put.slice(edit.caret);
  });
})"""
OPTIONS = "[...document.querySelectorAll('#suggestions:not([hidden]) li')].map(one => one.firstChild.textContent)"
VALUE = "document.querySelector('#query [name=%s]').value"


@pytest.fixture
def page(server, tmp_path):
    with MongoClient(server.uri) as client:
        things = client.shop.things
        things.insert_many([{"_id": n, "price": n % 7, "address": {"city": "Faro"}, "<b>": 1} for n in range(30)])
        # Beyond the first page and what is sampled of the end, there are fields that an index tells of.
        things.create_index("rare.field")
    with Chromium(tmp_path, server.admin_url + "#data/shop/things") as chromium:
        chromium.wait_for("document.querySelectorAll('#documents pre').length > 1")
        yield chromium
        assert not chromium.errors, chromium.errors
        assert all(url.startswith(server.admin_url) for url in chromium.requested), chromium.requested


def focus(page, name):
    """Focuses a field of the query, and waits for what can be offered there."""
    page.evaluate(f"document.querySelector('#query [name={name}]').focus()")
    page.press("ArrowDown")
    page.wait_for(OPTIONS, lambda names: {"_id", "price", "address.city", "rare.field"} <= set(names))
    page.press("Escape")


def test_what_may_stand_at_the_caret_is_offered(page):
    fields = ["_id", "address.city", "price", "wild"]
    cases = {
        ("filter", "|"): lambda names: names[:4] == fields and "items.sku" in names and "$or" in names and "$gt" not in names and "$where" not in names,
        ("filter", "{pr|"): ["price", "$expr"],
        ("filter", "{price: {$g|"): ["$geoIntersects", "$geoNear", "$geoWithin", "$gt", "$gte"],
        ("filter", "{price: {$gt: 1, $lt|}}"): ["$lte"],
        ("filter", "{price: 5, add|"): ["address.city", "address", "address.zip"],
        ("filter", "{$or: [{price: 1}, {na|"): ["name"],
        ("filter", "{items: {$elemMatch: {s|"): lambda names: names[0] == "sku" and "items.sku" not in names and "$size" in names,
        ("filter", "{price: {$not: {$e|"): ["$elemMatch", "$eq", "$exists"],
        ("filter", "{$expr: {$da|"): lambda names: "$dateTrunc" in names and "$exists" not in names,
        ("filter", "{$expr: {$gt: [\"$pr|\", 5]}}"): ["$price"],
        # A value is nobody's to know.
        ("filter", "{price: |"): [],
        ("filter", "{price: \"$pr|"): [],
        ("filter", "{price: 5 |"): [],
        ("filter", "{name: /pr|"): [],
        ("filter", "{name: 'a \\' b', pr|"): ["price", "$expr"],
        ("filter", "{'address.z|"): ["address.zip"],
        ("filter", "{}|"): [],
        ("sort", "{price: |"): ["1", "-1"],
        ("sort", "{price: -|"): ["-1"],
        ("sort", "{price: 1|"): [],
        ("sort", "{$|"): [],
        ("sort", "{score: {$|"): ["$meta"],
        ("projection", "{price: |"): ["1", "0"],
        ("projection", "{items: {$sl|"): ["$slice"],
        ("projection", "{items: {sk|"): ["sku"],
        ("projection", "{total: {$add: ['$pr|"): ["$price"],
    }
    offered = page.evaluate(OFFERED.replace("KINDS", json.dumps(list(cases))))
    for (case, wanted), names in zip(cases.items(), offered, strict=True):
        assert wanted(names) if callable(wanted) else names == wanted, (case, names)


def test_an_option_takes_the_place_of_the_word_and_of_nothing_else(page):
    texts = {
        ("filter", "|"): '{"address.city": |}',
        ("filter", "pr|"): "{price: |}",
        ("filter", "{pr|}"): "{price: |}",
        ("filter", "{pr|ic: 5, name: 'pr'}"): "{price|: 5, name: 'pr'}",
        ("filter", "{address.c|"): '{"address.city": |',
        ("filter", "{'address.c|': 1}"): '{"address.city"|: 1}',
        ("filter", "{'address.c|, name: 'x'}"): "{\"address.city\": |, name: 'x'}",
        ("filter", "{price: {$g|}}"): "{price: {$gt: |}}",
        ("filter", "{$expr: {$eq: ['$pr|']}}"): '{$expr: {$eq: ["$price"|]}}',
        ("sort", "{price: -|}"): "{price: -1|}",
        ("filter", "{say|"): '{"say \\"it\\"": |',
    }
    script = ACCEPTED.replace("TEXTS", json.dumps(list(texts))).replace("FIELDS", json.dumps(["price", "address.city", 'say "it"']))
    for text, wanted, became in zip(texts, texts.values(), page.evaluate(script), strict=True):
        assert became == wanted, text


def test_fields_and_operators_are_chosen_by_keyboard(page):
    focus(page, "filter")
    page.type("{addr")
    page.wait_for(OPTIONS, lambda names: names == ["address", "address.city"])
    box = "(input => [input.getAttribute('role'), input.getAttribute('aria-expanded'), input.getAttribute('aria-controls'), input.getAttribute('aria-activedescendant')])(document.activeElement)"
    assert page.evaluate(box) == ["combobox", "true", "suggestions", None]
    # Nothing is chosen yet: Enter asks what was typed, and Tab goes on.
    page.press("Enter")
    page.wait_for("document.getElementById('dataState').className", lambda name: name == "bad")
    assert page.evaluate(VALUE % "filter") == "{addr" and page.evaluate(OPTIONS) == []
    page.type("e")
    page.wait_for(OPTIONS, bool)
    page.press("ArrowDown")
    page.press("ArrowDown")
    chosen = page.evaluate(box)[3]
    assert page.evaluate(f"(item => [item.getAttribute('role'), item.getAttribute('aria-selected'), item.textContent])(document.getElementById('{chosen}'))")[:2] == ["option", "true"]
    assert page.evaluate(VALUE % "filter") == "{addre"
    page.press("Enter")
    assert page.evaluate(VALUE % "filter") == '{"address.city": '
    page.type("{$i")
    page.wait_for(OPTIONS, lambda names: names[0] == "$in")
    page.press("Escape")
    assert page.evaluate(OPTIONS) == [] and page.evaluate(VALUE % "filter") == '{"address.city": {$i'
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("Tab")
    assert page.evaluate(VALUE % "filter") == '{"address.city": {$in: '
    assert page.evaluate("document.activeElement.name") == "filter"
    page.type("['Faro']}}")
    assert page.evaluate(OPTIONS) == []
    page.press("Enter")
    page.wait_for("document.getElementById('dataState').textContent", lambda text: "1 to 20" in text)
    page.type(" ")
    page.press("Tab")
    assert page.evaluate("document.activeElement.name") == "projection"
    # What was put in can be taken back like what was typed.
    page.type("pri")
    page.wait_for(OPTIONS, bool)
    page.press("ArrowDown")
    page.press("Enter")
    assert page.evaluate(VALUE % "projection") == "{price: }"
    page.evaluate("document.execCommand('undo')")
    assert page.evaluate(VALUE % "projection") == "pri"


def test_fields_are_chosen_by_touch_on_a_phone_in_either_scheme(page):
    page.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    for scheme in ("dark", "light"):
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.evaluate("document.querySelector('#query').reset()")
        page.tap("#query [name=sort]")
        focus(page, "sort")
        page.type("{")
        page.wait_for(OPTIONS, lambda names: "price" in names)
        assert "<b>" in page.evaluate(OPTIONS)
        page.type("pri")
        page.wait_for(OPTIONS, lambda names: names == ["price"])
        inside = "(box => box.left >= 0 && box.right <= 390 && box.height > 0)(document.getElementById('suggestions').getBoundingClientRect())"
        assert page.evaluate(inside) and page.evaluate("document.documentElement.scrollWidth") <= 390
        ground, ink = page.evaluate("(style => [style.backgroundColor, style.color].map(colour => Number(colour.match(/\\d+/)[0])))(getComputedStyle(document.getElementById('suggestions')))")
        assert (ground < ink) == (scheme == "dark")
        page.tap("#suggestions li")
        page.wait_for(VALUE % "sort", lambda text: text == "{price: ")
        page.wait_for(OPTIONS, lambda names: names == ["1", "-1"])
        page.tap("#suggestions li:nth-child(2)")
        page.wait_for(VALUE % "sort", lambda text: text == "{price: -1")
        page.evaluate("document.activeElement.blur()")
        assert page.evaluate(OPTIONS) == []
