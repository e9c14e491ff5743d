"""The console's views of operations, collections, documents and advice, in a headless Chromium."""

import base64
import contextlib
import http.server
import json
import threading
import urllib.error
import urllib.request

import pytest
from pymongo import MongoClient, UpdateOne
from pymongo.errors import OperationFailure

from chromium import Chromium
from conftest import ENGINE
from quarry_process import Quarry

INTERRUPTED = 11601
UNAUTHORIZED = 13
# A pipeline that takes far longer than any test waits, as long as nobody ends it: no index bounds what is computed.
BEFORE = [{"$match": {"$expr": {"$lt": [{"$add": ["$_id", 0]}, "$$of"]}}}]
COUNTED = {"$lookup": {"from": "things", "let": {"of": "$_id"}, "pipeline": [*BEFORE, {"$count": "n"}], "as": "inner"}}
LONG = [{"$lookup": {"from": "things", "let": {"of": "$_id"}, "pipeline": [*BEFORE, COUNTED, {"$count": "n"}], "as": "outer"}}]
WATERFALL = """[...document.querySelectorAll('.waterfall div')].map(line => {
  const part = line.querySelector('u i');
  return [line.querySelector('b').textContent, parseFloat(part.style.left), parseFloat(part.style.width)];
})"""


@pytest.fixture
def browse(tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda url: stack.enter_context(Chromium(tmp_path, url))


@contextlib.contextmanager
def slow(client):
    """Everything that is asked within is slow."""
    client.admin.command("setParameter", 1, slowOpThresholdMs=0)
    yield
    client.admin.command("setParameter", 1, slowOpThresholdMs=10000)


def set_value(page, selector, value):
    page.evaluate(f"""(field => {{ field.value = {json.dumps(value)}; field.dispatchEvent(new Event('input', {{bubbles: true}})); }})
        (document.querySelector({json.dumps(selector)}))""")


def test_a_slow_operation_stands_still_and_has_a_waterfall(server, browse):
    page = browse(server.admin_url + "#operations")
    with MongoClient(server.uri) as client:
        client.shop.things.insert_many([{"_id": number, "text": "ab" * 40} for number in range(3000)])
        with slow(client):
            list(client.shop.things.find({"text": {"$regex": "b.*c$"}}))
        page.wait_for("document.querySelectorAll('#slow tr[data-key]').length > 0")
        before = page.text("#slow")
        with slow(client):
            list(client.shop.things.find({"text": "late"}))
        page.wait_for("!document.getElementById('slowNew').hidden")
        # Nothing moves under the pointer until it is asked for.
        assert page.text("#slow") == before
    page.click("#slowNew")
    set_value(page, "#slowFilter", "b.*c$")
    page.wait_for("document.querySelectorAll('#slow tr[data-key]').length", lambda count: count == 1)
    assert "COLLSCAN" in page.text("#slow")
    page.click("#slow tr")
    lines = page.evaluate(WATERFALL)
    assert {"match", "engine_scan"} <= {name for name, _, _ in lines}
    end = 0
    for name, left, width in lines:
        assert left == pytest.approx(end, abs=0.01), name
        end = left + width
    assert end == pytest.approx(100, abs=0.1)
    assert "docsExamined" in page.text("#chosen") and '$regex: "b.*c$"' in page.text("#chosen pre")
    page.evaluate("[...document.querySelectorAll('#chosen button')].find(one => one.textContent.startsWith('Explain')).click()")
    page.wait_for("document.querySelector('#chosen .tree .COLLSCAN')?.textContent ?? ''", lambda text: "3,000 documents examined" in text)
    copied = page.evaluate("import('./operations.js').then(operations => operations.mongosh({ns: 'shop.things', command: {find: 'things', filter: {a: {$oid: '0123456789abcdef01234567'}}, limit: 5, $db: 'shop'}}))")
    assert copied.replace("\n", "").replace("  ", " ") == 'db.getSiblingDB("shop").getCollection("things").find({ a: ObjectId("0123456789abcdef01234567")}).limit(5)'
    assert not page.errors


def test_an_operation_is_ended_after_a_question(server, browse):
    page = browse(server.admin_url + "#operations")
    ended = []
    with MongoClient(server.uri) as client:
        client.shop.things.insert_many([{"_id": number} for number in range(2000)])
        worker = threading.Thread(daemon=True, target=lambda: ended.append(error_code(lambda: list(client.shop.things.aggregate(LONG)))))
        worker.start()
        button = "[...document.querySelectorAll('#running tr')].find(row => row.textContent.includes('aggregate shop.things'))?.querySelector('button')"
        page.wait_for(f"Boolean({button})")
        page.evaluate(f"{button}.click()")
        page.wait_for("document.getElementById('dialog').open")
        assert worker.is_alive() and "$lookup" in page.text("#dialog")
        page.evaluate("[...document.querySelectorAll('#dialog button')].find(one => one.textContent === 'Kill').click()")
        worker.join()
    assert ended == [INTERRUPTED]
    assert not page.errors


def error_code(run):
    try:
        run()
    except OperationFailure as error:
        return error.code
    return None


def test_a_page_of_another_site_can_do_nothing(server, browse):
    class Evil(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<body>evil</body>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil) as evil, MongoClient(server.uri) as client:
        threading.Thread(daemon=True, target=evil.serve_forever).start()
        client.shop.things.insert_many([{"_id": number} for number in range(2000)])
        ended = []
        worker = threading.Thread(daemon=True, target=lambda: ended.append(error_code(lambda: list(client.shop.things.aggregate(LONG)))))
        worker.start()
        running = lambda: [one["opid"] for one in client.admin.command("currentOp")["inprog"] if "aggregate" in one.get("command", {}) and one["ns"] == "shop.things"]
        while not (opids := running()):
            assert worker.is_alive()
        page = browse(f"http://127.0.0.1:{evil.server_port}/")
        page.wait_for("document.body?.textContent ?? ''", lambda text: text == "evil")
        kill = json.dumps({"killOp": 1, "op": opids[0], "$db": "admin"})
        for options in (
            {"method": "POST", "mode": "no-cors", "headers": {"Content-Type": "text/plain"}, "body": kill},
            {"method": "POST", "headers": {"Content-Type": "application/json", "X-Quarry-Console": "1"}, "body": kill},
            {"method": "POST", "mode": "no-cors", "body": kill},
        ):
            outcome = page.evaluate(f"fetch('{server.admin_url}command', {json.dumps(options)}).then(answer => answer.type, () => 'refused')")
            assert outcome in ("refused", "opaque")
        for path in ("timing.json", "history.json", ""):
            assert page.evaluate(f"fetch('{server.admin_url}{path}').then(answer => answer.text(), () => 'refused')") == "refused"
        assert running() == opids and worker.is_alive()
        client.admin.command("killOp", op=opids[0])
        worker.join()
        assert ended == [INTERRUPTED]
        evil.shutdown()


def test_names_and_documents_run_nothing(server, browse):
    evil = "<img src=x onerror='window.hacked=1'>"
    with MongoClient(server.uri) as client:
        client.shop[evil].insert_one({"_id": evil, "<script>window.hacked=1</script>": ["<svg onload=window.hacked=1>"]})
        client.shop[evil].create_index([(evil.replace(".", "_"), 1)], name=evil)
        with slow(client):
            list(client.shop[evil].find({"a": evil}))
        page = browse(server.admin_url)
        page.wait_for("document.getElementById('busiest').textContent", lambda text: evil in text)
        page.click("nav a[data-view=operations]")
        page.click("#slow tr[data-key]")
        page.click("nav a[data-view=collections]")
        page.click("#collectionRows tr[data-ns]")
        page.wait_for("document.getElementById('indexes').textContent", lambda text: evil in text)
        page.evaluate(f"location.hash = 'data/shop/' + encodeURIComponent({json.dumps(evil)})")
        page.wait_for("document.getElementById('documents').textContent", lambda text: "<svg onload" in text)
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.querySelectorAll('main img, main script, main svg').length") == 0
        # Were there a hole, the policy would still keep a script within the page from running.
        page.evaluate("(box => { box.setAttribute('onclick', 'window.hacked=1'); document.body.append(box); box.click(); })(document.createElement('div'))")
        assert page.evaluate("window.hacked") is None


def test_collections_tell_sizes_and_superfluous_indexes(server, browse):
    with MongoClient(server.uri) as client:
        things = client.shop.things
        things.insert_many([{"_id": number, "a": number, "b": number} for number in range(50)])
        for keys, options in (([("a", 1)], {}), ([("a", 1), ("b", 1)], {}), ([("b", 1)], {"unique": True}), ([("b", 1), ("a", 1)], {})):
            things.create_index(keys, **options)
    page = browse(server.admin_url + "#collections")
    row = "document.querySelector('#collectionRows tr[data-ns=\"shop.things\"]')?.textContent ?? ''"
    text = page.wait_for(row)
    assert "50" in text and "a_1 is the beginning of a_1_b_1" in text
    # What makes values unique has a purpose of its own.
    assert "b_1 is" not in text
    page.click("#collectionRows tr[data-ns='shop.things']")
    names = page.evaluate("[...document.querySelectorAll('#indexes tr[data-index]')].map(line => line.dataset.index)")
    assert names == ["_id_", "a_1", "a_1_b_1", "b_1", "b_1_a_1"]
    assert not page.errors


def test_unused_indexes_are_told_over_all_collections(server, browse):
    with MongoClient(server.uri) as client:
        for name in ("things", "others"):
            things = client.shop[name]
            things.insert_many([{"_id": number, "used": number, "idle": number, "one": number} for number in range(50)])
            for key, options in (("used", {}), ("idle", {}), ("one", {"unique": True}), ("at", {"expireAfterSeconds": 3600})):
                things.create_index(key, **options)
            assert things.find_one({"used": 7}, hint="used_1")
    page = browse(server.admin_url + "#collections")
    rows = "[...document.querySelectorAll('#collectionRows tr[data-ns]')].map(line => [line.dataset.ns, line.cells[5].textContent, line.cells[5].className])"
    told = {ns: (text.split("; "), name) for ns, text, name in page.wait_for(rows, lambda rows: len(rows) == 2)}
    assert sorted(told) == ["shop.others", "shop.things"]
    for remarks, name in told.values():
        assert [remark.split(" since ")[0] for remark in remarks] == ["idle_1 unused", "one_1 unused", "at_1 unused"]
        assert remarks[1].endswith(", also enforces uniqueness") and remarks[2].endswith(", expires documents")
        assert "bad" in name
    assert "6 indexes unused, 0 superfluous" in page.text("#collectionsState")
    page.click("#collectionRows tr[data-ns='shop.things']")
    page.wait_for("document.querySelector('#indexes tr[data-index=idle_1]')?.textContent ?? ''", lambda text: "0 times" in text and "idle_1 unused since" in text)
    # Not what cannot be dropped, is only being built, or is not counted; since when is told in words.
    told = page.evaluate("""import('./collections.js').then(({ unused }) => {
      const use = { ops: 0, since: { $date: "2024-05-06T07:08:09Z" } };
      return unused([{ name: "_id_", key: { _id: 1 }, use }, { name: "by", key: { _id: 1 }, clustered: true, use }, { name: "built", key: { a: 1 } }, { name: "a", key: { a: 1 }, use }]);
    })""")
    assert [(one["name"], "unused since" in one["text"] and "May 2024" in one["text"]) for one in told] == [("a", True)]
    assert not page.errors


def test_very_many_collections_are_read_as_somebody_asks(server, browse):
    with MongoClient(server.uri) as client:
        for number in range(310):
            client.shop.create_collection(f"c{number:03}")
        client.shop["x.late"].insert_one({})
    page = browse(server.admin_url + "#collections")
    state = "document.getElementById('collectionsState').textContent"
    page.wait_for(state, lambda text: text.startswith("300 of 311 collections;"))
    # Three commands for each of those that are read, and none for the others.
    assert sum(url.endswith("command?") for url in page.requested) < 3 * 300 + 60
    page.click("#collectionsMore")
    page.wait_for(state, lambda text: text.startswith("311 of 311 collections;"))
    assert page.evaluate("document.getElementById('collectionsMore').hidden")
    for wanted, count in (("shop.x.l", 1), ("hop.c30", 10), ("SHOP", 311), ("c30", 10), ("op.*", 0)):
        set_value(page, "#collectionFilter", wanted)
        page.click("#collectionsAgain")
        page.wait_for(state, lambda text: text.startswith(f"{min(count, 300)} of {count} collections;") if count else text == "there are no collections")
    assert not page.errors


def test_advice_holds_once_it_is_followed(server, browse):
    with MongoClient(server.uri) as client:
        things = client.shop.things
        things.insert_many([{"_id": number, "price": number % 1000, "text": "x"} for number in range(5000)])
        asked = {"price": 7}
        with slow(client):
            assert len(list(things.find(asked))) == 5
            list(things.find({"text": {"$ne": "x"}}))
        page = browse(server.admin_url + "#adviser")
        page.wait_for("document.getElementById('server').textContent")
        page.click("#advise")
        page.wait_for("document.getElementById('adviserState').textContent", lambda text: text == "2 shapes looked at")
        text = page.text("#advice")
        assert "createIndex({ price: 1 })" in text and "becomes IXSCAN { price: 1 }, in place of COLLSCAN" in text
        assert "Tried on 2,000 of 5,000 documents" in text and "no advice: it has no condition" in text
        things.create_index("price")
        stats = things.find(asked).explain()["executionStats"]
        assert (stats["totalDocsExamined"], stats["nReturned"]) == (5, 5)
    assert not page.errors


def test_advice_for_writes_and_alternatives_holds(server, browse):
    with MongoClient(server.uri) as client:
        things = client.shop.things
        things.insert_many([{"_id": number, "price": number % 1000, "state": number % 500, "at": number, "code": number} for number in range(5000)])
        with slow(client):
            things.update_many({"state": 7}, {"$set": {"seen": True}})
            things.delete_many({"price": 9000})
            things.find_one_and_update({"code": {"$gt": 5100}}, {"$set": {"seen": True}}, sort={"code": 1})
            things.bulk_write([UpdateOne({"at": number}, {"$set": {"seen": True}}) for number in range(9000, 9010)])
            things.update_many({}, {"$set": {"x": 1}})
            list(things.find({"$or": [{"price": 1}, {"code": 7}]}))
        page = browse(server.admin_url + "#adviser")
        page.wait_for("document.getElementById('server').textContent")
        page.click("#advise")
        page.wait_for("document.getElementById('adviserState').textContent", lambda text: text == "6 shapes looked at")
        boxes = page.evaluate("[...document.querySelectorAll('.advice')].map(box => box.textContent)")
        box = lambda start, part: next(text for text in boxes if text.startswith(start) and part in text)
        for start, part, key in (
            ("update shop.things", "state: 7", "{ state: 1 }"),
            ("delete shop.things", "price: 9000", "{ price: 1 }"),
            ("findAndModify shop.things", "$gt: 5100", "{ code: 1 }"),
            ("update shop.things", "at: 9000", "{ at: 1 }"),
        ):
            text = box(start, part)
            assert f"createIndex({key})" in text and "in place of COLLSCAN" in text, text
        assert "10 statements ask alike" in box("update shop.things", "at: 9000")
        assert "no advice: it has no condition" in box("update shop.things", "x: 1")
        either = box("find shop.things", "$or")
        assert "createIndex({ price: 1 })" in either and "createIndex({ code: 1 })" in either
        assert "IXSCAN { price: 1 }, IXSCAN { code: 1 }" in either or "IXSCAN { code: 1 }, IXSCAN { price: 1 }" in either
        assert "read-only" not in " ".join(boxes)
        # Nothing was written for it, and what was advised is read by what asked.
        assert things.count_documents({}) == 5000 and [index["name"] for index in things.list_indexes()] == ["_id_"]
        things.create_index("price")
        things.create_index("code")
        things.create_index("state")
        stats = things.find({"$or": [{"price": 1}, {"code": 7}]}).explain()["executionStats"]
        assert (stats["totalDocsExamined"], stats["nReturned"]) == (6, 6)
        update = {"update": "things", "updates": [{"q": {"state": 7}, "u": {"$set": {"seen": False}}, "multi": True}]}
        explained = client.shop.command("explain", update, verbosity="executionStats")
        assert explained["executionStats"]["totalDocsExamined"] == 10
        # The statements are shown beside the slow operation, too.
        page.click("nav a[data-view=operations]")
        set_value(page, "#slowFilter", "seen")
        page.wait_for("document.querySelectorAll('#slow tr[data-key]').length", lambda count: count == 3)
    assert not page.errors


def test_documents_are_found_page_by_page_and_not_changed(server, browse):
    with MongoClient(server.uri) as client:
        client.shop.things.insert_many([{"_id": number, "price": number % 50} for number in range(45)])
        client.shop.things.create_index("price")
    page = browse(server.admin_url + "#data/shop/things")
    shown = "[...document.querySelectorAll('#documents pre')].map(one => one.textContent)"
    assert len(page.wait_for(shown)) == 20
    page.click("#after")
    page.wait_for("document.getElementById('dataState').textContent", lambda text: "21 to 40" in text)
    page.click("#after")
    page.wait_for("document.getElementById('dataState').textContent", lambda text: "41 to 45" in text)
    assert page.evaluate("document.getElementById('after').disabled")
    set_value(page, "#query [name=filter]", "{price: {$gte: 40}}")
    set_value(page, "#query [name=sort]", "{price: -1}")
    page.evaluate("document.getElementById('query').requestSubmit()")
    page.wait_for(shown, lambda texts: len(texts) == 5 and "price: 44" in texts[0])
    page.click("#explain")
    page.wait_for("document.querySelector('#plan .tree .IXSCAN')?.textContent ?? ''", lambda text: "price_1" in text)
    set_value(page, "#query [name=filter]", "{price: {$nothing: 1}}")
    page.evaluate("document.getElementById('query').requestSubmit()")
    page.wait_for("document.getElementById('dataState').textContent", lambda text: "$nothing" in text)
    buttons = page.evaluate("[...document.querySelectorAll('#data button:not([hidden])')].map(one => one.textContent)")
    assert not {"Edit", "Delete", "Insert"} & set(buttons)
    assert not page.errors


def test_a_document_is_changed_after_its_difference_was_seen(start, browse):
    server = start("--console", "rw")
    say = "[...document.querySelectorAll('#dialog button')].find(one => one.textContent === %r).click()"
    title = "document.querySelector('#dialog[open] h3')?.textContent ?? ''"
    act = "[...document.querySelectorAll('.document button')].find(one => one.textContent === %r)?.click()"
    with MongoClient(server.uri) as client:
        things = client.shop.things
        things.insert_one({"_id": 1, "price": 1.5, "count": 2**40, "tags": ["a"]})
        page = browse(server.admin_url + "#data/shop/things")
        change = """(area => { area.value = area.value.replace('1.5', '2.5'); })(document.querySelector('#dialog textarea'))"""
        for is_late in (False, True):
            page.wait_for("[...document.querySelectorAll('.document button')].some(one => one.textContent === 'Edit')")
            page.evaluate(act % "Edit")
            page.wait_for(title, lambda text: text.startswith("Edit"))
            page.evaluate(change)
            page.evaluate(say % "Show the changes")
            page.wait_for(title, lambda text: text.startswith("Save"))
            if not is_late:
                assert "1.5" in page.text("#dialog del") and "2.5" in page.text("#dialog ins")
            else:
                things.update_one({"_id": 1}, {"$set": {"price": 9.5}})
            page.evaluate(say % "Save")
            if not is_late:
                page.wait_for("document.querySelector('#documents pre').textContent", lambda text: "price: 2.5" in text)
                assert things.find_one() == {"_id": 1, "price": 2.5, "count": 2**40, "tags": ["a"]}
        # Nothing is saved over what somebody else has changed meanwhile.
        page.wait_for(title, lambda text: text == "It was not saved")
        assert things.find_one()["price"] == 9.5
    assert not page.errors


def command(server, body, user=None, password="secret", token=None):
    """The status and the reply, as the page would ask."""
    request = urllib.request.Request(server.admin_url + "command", json.dumps(body).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    request.add_header("X-Quarry-Console", "1")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    if user:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_commands_have_the_privileges_of_their_user(tmp_path, mode):
    server = Quarry(tmp_path / "data", ENGINE, ["--adminPort", "0", "--console", mode]).start()
    with MongoClient(server.uri) as client:
        client.shop.things.insert_one({"_id": 1})
        for name, roles in (("monitor", ["clusterMonitor"]), ("reader", ["clusterMonitor", "readAnyDatabase"]), ("nobody", [])):
            client.admin.command("createUser", name, pwd="secret", roles=roles)
    server.kill()
    secret = tmp_path / "token"
    secret.write_text("a token of some length\n")
    server.arguments += ["--auth", "--adminTokenFile", str(secret)]
    server.start()
    try:
        privileges_hold(server, mode)
    finally:
        server.kill()


def privileges_hold(server, mode):
    status = {"serverStatus": 1, "$db": "admin"}
    find = {"find": "things", "$db": "shop"}
    insert = {"insert": "things", "documents": [{"_id": 2}], "$db": "shop"}
    # An operation of nobody's: everybody may end its own.
    kill = {"killOp": 1, "op": 2**30, "$db": "admin"}
    assert command(server, status)[0] == 401
    assert command(server, status, "monitor", "wrong")[0] == 401
    assert command(server, status, "nobody")[0] == 403
    assert command(server, status, "monitor")[1]["ok"] == 1
    for refused, user in ((find, "monitor"), (kill, "monitor"), (kill, "reader")):
        answered, reply = command(server, refused, user)
        assert (answered, reply["ok"], reply.get("code")) == (200, 0, UNAUTHORIZED), (refused, user)
    # The token opens figures, and no data.
    token = "a token of some length"
    assert command(server, status, token=token)[1]["ok"] == 1
    assert command(server, find, token=token)[0] == command(server, kill, token=token)[0] == 403
    assert command(server, find, "reader")[1]["cursor"]["firstBatch"] == [{"_id": 1}]
    answered, reply = command(server, insert, "reader")
    assert answered == 403 if mode == "ro" else reply["code"] == UNAUTHORIZED
