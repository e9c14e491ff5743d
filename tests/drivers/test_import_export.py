"""`quarry import` and `quarry export`: values of every format, errors by their lines, round trips, and going on behind an interruption."""

import datetime
import decimal
import gzip
import json
import os
import subprocess
import time
import uuid

import bson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from bson.json_util import CANONICAL_JSON_OPTIONS, dumps
from bson.raw_bson import RawBSONDocument
from cutter import Cutter, names
from quarry_process import binary

PATIENCE_SECONDS = 60
# Documents as the bytes that they are.
RAW = CodecOptions(document_class=RawBSONDocument)


def quarry(*arguments, text=""):
    """The ended process of a subcommand."""
    command = [binary(), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)


def succeed(*arguments, text=""):
    ended = quarry(*arguments, text=text)
    assert ended.returncode == 0, (arguments, ended.stdout[:1000], ended.stderr[:4000])
    return ended.stdout


def fail(*arguments, text=""):
    ended = quarry(*arguments, text=text)
    assert ended.returncode == 1, (arguments, ended.returncode, ended.stderr[:4000])
    return ended.stderr


@pytest.fixture
def into(server, collection):
    """The flags that name the collection."""
    return ["--uri", server.uri, "--db", collection.database.name, "--collection", collection.name]


def test_lines_and_arrays_of_extended_json(into, collection):
    lines = '{"_id": 1, "a": {"$numberLong": "5"}}\n\n{"_id": 2, "when": {"$date": "2020-02-29T00:00:00Z"},\n "x": [1.5]}\n'
    succeed("import", *into, text=lines)
    array = '[{"_id": 3},\n {"_id": {"$oid": "0123456789abcdef01234567"}}]'
    succeed("import", *into, text=array)
    found = list(collection.find().sort("_id", 1))
    assert found == [
        {"_id": 1, "a": 5},
        {"_id": 2, "when": datetime.datetime(2020, 2, 29), "x": [1.5]},
        {"_id": 3},
        {"_id": ObjectId("0123456789abcdef01234567")},
    ]
    assert isinstance(found[0]["a"], Int64)


def test_csv_with_types(into, collection, tmp_path):
    file = tmp_path / "people.csv"
    file.write_text(
        "_id.int32(),name.first.string(),name.last.string(),born.date(2006-01-02),worth.decimal(),big.int64(),is.boolean(),raw.binary(hex)\n"
        '1,Ada,"Love, lace",1815-12-10,1.10,7,true,00ff\n'
        "2,Grace,,1906-12-09,2,8,false,\n"
    )
    succeed("import", *into, file, "--headerline", "--columnsHaveTypes", "--ignoreBlanks")
    ada, grace = collection.find().sort("_id", 1)
    assert ada == {
        "_id": 1,
        "name": {"first": "Ada", "last": "Love, lace"},
        "born": datetime.datetime(1815, 12, 10),
        "worth": Decimal128("1.10"),
        "big": 7,
        "is": True,
        "raw": b"\x00\xff",
    }
    assert isinstance(ada["big"], Int64)
    assert grace["name"] == {"first": "Grace"} and "raw" not in grace
    file.write_text("_id.int32(),n.int32()\n3,x\n4,5\n")
    flags = [*into, file, "--headerline", "--columnsHaveTypes"]
    assert "line 2: field `n`: `x` is no Int32" in fail("import", *flags)
    said = quarry("import", *flags, "--parseGrace", "skipRow")
    assert said.returncode == 0 and "line 2 is left out: field `n`: `x` is no Int32" in said.stderr
    assert "1 documents imported, 1 left out" in said.stderr
    assert list(collection.find({"_id": {"$gt": 2}})) == [{"_id": 4, "n": 5}]
    file.write_text("_id.int32(),n.int32()\n" + "".join(f"{n},{'x' if n % 2 else n}\n" for n in range(100, 200)))
    said = quarry("import", *flags, "--parseGrace", "skipRow")
    assert said.returncode == 0 and "50 documents imported, 50 left out" in said.stderr
    assert said.stderr.count("is left out:") == 20


def test_csv_and_tsv_without_types(into, collection):
    succeed("import", *into, "--type", "csv", "--fields", "_id,a,b", text="1,2.5,x\n2,,\n3,5000000000,1\n")
    assert list(collection.find().sort("_id", 1)) == [
        {"_id": 1, "a": 2.5, "b": "x"},
        {"_id": 2, "a": "", "b": ""},
        {"_id": 3, "a": 5000000000, "b": 1},
    ]
    succeed("import", *into, "--type", "tsv", "--headerline", "--drop", text='_id\ttext\n1\t"q\n')
    assert list(collection.find()) == [{"_id": 1, "text": '"q'}]


def test_errors_are_named_by_line_and_the_rest_is_imported(into, collection):
    collection.insert_one({"_id": 2})
    text = '{"_id": 1}\n{"_id": 2}\nnonsense\n{"_id": tru}\n{"_id": 3}\n'
    said = fail("import", *into, text=text)
    assert "line 2: E11000" in said and "line 3: expected a document" in said and "line 4: " in said
    assert "2 documents imported" in said and "3 documents were refused or cannot be read" in said
    assert collection.count_documents({}) == 3
    said = fail("import", *into, "--stopOnError", text='{"_id": 3}\n{"_id": 4}\n')
    assert "line 1: E11000" in said and "stopped" in said and collection.count_documents({"_id": 4}) == 0
    assert "line 2: the document that begins here does not end" in fail("import", *into, text='{"a": 1}\n{"b": {"c": 1}\n')


def test_a_quote_that_is_not_closed_is_named_where_it_opens(into, collection, tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("_id,a\n" + "".join(f"{n},x\n" for n in range(50)) + '50,"open\n' + "".join(f"{n},x\n" for n in range(51, 100)))
    said = fail("import", *into, file, "--headerline")
    assert "line 52: the quote that opens here is not closed" in said and "50 documents imported" in said
    assert sorted(document["_id"] for document in collection.find()) == list(range(50))
    # A closed one at the very end is none of these.
    succeed("import", *into, "--type", "csv", "--fields", "_id,a", "--drop", text='1,"x\ny"')
    assert list(collection.find()) == [{"_id": 1, "a": "x\ny"}]


@pytest.mark.parametrize("count", [20, 20_000])
def test_what_comes_before_a_bad_end_is_imported_and_counted(into, collection, count):
    good = "".join(json.dumps({"_id": n, "text": "x" * 300}) + "\n" for n in range(count))
    said = fail("import", *into, text=good + '{"_id": 1000000\n')
    assert f"line {count + 1}: the document that begins here does not end; {count} documents imported" in said
    assert collection.count_documents({}) == count
    # The first that cannot be read, or is refused, ends it; nothing behind it is imported.
    said = fail("import", *into, "--drop", "--stopOnError", text=good + "nonsense\n" + '{"_id": -1}\n' * 20_000)
    assert f"line {count + 1}: expected a document" in said and f"stopped; {count} documents imported" in said
    assert collection.count_documents({}) == count
    later = "".join(json.dumps({"_id": -n - 1, "text": "x" * 300}) + "\n" for n in range(30_000))
    said = fail("import", *into, "--drop", "--stopOnError", text=good + '{"_id": 0}\n' + later)
    assert f"line {count + 1}: E11000" in said and f"stopped; {count} documents imported" in said
    assert collection.count_documents({}) == count


def test_compressed_files_are_unpacked(into, collection, tmp_path):
    lines = [json.dumps({"n": n, "text": "x" * 500}) for n in range(20_000)]
    file, state = tmp_path / "many.json.gz", tmp_path / "state"
    file.write_bytes(gzip.compress(("\n".join(lines[:15_000]) + "\n{").encode()))
    assert "line 15001: the document that begins here does not end" in fail("import", *into, file, "--resume", state)
    file.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    succeed("import", *into, file, "--resume", state)
    assert sorted(document["n"] for document in collection.find()) == list(range(20_000))
    # The ending before the last tells the format, and the name without both the collection.
    table = tmp_path / f"{collection.name}.csv.gz"
    table.write_bytes(gzip.compress(b"_id,a\n1,2\n"))
    succeed("import", *into[:4], table, "--headerline", "--drop")
    assert list(collection.find()) == [{"_id": 1, "a": 2}]
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(gzip.compress("\n".join(lines).encode())[:-100])
    assert "cut.json.gz" in fail("import", *into, cut)


def test_the_other_modes(into, collection):
    collection.insert_many([{"_id": n, "key": n, "a": 1, "b": 1} for n in range(4)])
    succeed("import", *into, "--mode", "upsert", text='{"_id": 0, "c": 2}\n{"_id": 9, "c": 2}\n')
    succeed("import", *into, "--mode", "merge", "--upsertFields", "key", text='{"key": 1, "a": 2}\n{"key": 8, "a": 2}\n')
    succeed("import", *into, "--mode", "delete", "--upsertFields", "key,a", text='{"key": 2, "a": 1}\n{"key": 3, "a": 5}\n')
    found = {document.pop("key", document["_id"]): document for document in collection.find()}
    assert found[0] == {"_id": 0, "c": 2} and found[9] == {"_id": 9, "c": 2}
    assert found[1] == {"_id": 1, "a": 2, "b": 1} and found[8]["a"] == 2
    assert 2 not in found and 3 in found


def test_rows_of_empty_fields_are_documents_whatever_ends_the_line(into, collection):
    blank = {"a": "", "b": ""}
    for kind, row in (("csv", ","), ("csv", '"",""'), ("csv", '"",'), ("csv", ',""'), ("tsv", "\t")):
        separator = "\t" if kind == "tsv" else ","
        for end in ("\n", "\r\n"):
            # The empty lines are none of these.
            text = end.join([separator.join("ab"), row, "", separator.join("12"), row, ""])
            succeed("import", *into, "--type", kind, "--headerline", "--maintainInsertionOrder", "--drop", text=text)
            assert list(collection.find({}, {"_id": 0})) == [blank, {"a": 1, "b": 2}, blank], (row, end)


def test_values_of_upsert_fields_are_no_operators(into, collection):
    def run(mode, *lines, code=0, fields="k"):
        collection.delete_many({})
        collection.insert_many([{"_id": "m", "k": "m"}, {"_id": "z", "k": "z"}, {"_id": "none"}, {"_id": "null", "k": None}])
        ended = quarry("import", *into, "--mode", mode, "--upsertFields", fields, text="\n".join(lines))
        assert ended.returncode == code, ended.stderr
        found = {document["_id"]: document for document in collection.find()}
        before = {"m": {"_id": "m", "k": "m"}, "z": {"_id": "z", "k": "z"}, "none": {"_id": "none"}, "null": {"_id": "null", "k": None}}
        changed = {name for name in before if found.pop(name, None) != before[name]}
        return changed, list(found.values()), ended.stderr

    pattern = '{"$regularExpression": {"pattern": "^z", "options": ""}}'
    for value in ('{"$gt": "a"}', '{"$exists": true}', '{"$ne": 1}', pattern):
        line = f'{{"k": {value}, "x": 1}}'
        assert run("delete", line)[:2] == (set(), []), value
        for mode in ("upsert", "merge"):
            changed, new, said = run(mode, line)
            assert changed == set() and len(new) == 1 and new[0]["x"] == 1 and "k" in new[0], (mode, value, said)
    # The server takes no such `_id`, which is told by the line; nothing else is changed.
    operator = '{"_id": {"$gt": "a"}, "x": 1}'
    assert run("delete", operator, fields="_id")[:2] == (set(), [])
    for mode in ("upsert", "merge"):
        changed, new, said = run(mode, operator, code=1, fields="_id")
        assert changed == set() and new == [] and "line 1: " in said
    assert "`$expr` would be an operator" in fail("import", *into, "--mode", "delete", "--upsertFields", "$expr", text='{"$expr": [1, 1]}')


def test_a_null_is_no_missing_upsert_field(into, collection):
    before = [{"_id": "none", "j": 1}, {"_id": "null", "j": 1, "k": None}, {"_id": "one", "j": 1, "k": 1}]

    def run(mode, line, code=0, fields="k", there=before):
        collection.delete_many({})
        collection.insert_many(there)
        ended = quarry("import", *into, "--mode", mode, "--upsertFields", fields, text=line)
        assert ended.returncode == code, ended.stderr
        found = {document["_id"]: document for document in collection.find()}
        new = [without_id(document) for name, document in found.items() if isinstance(name, ObjectId) or name == "own"]
        changed = {document["_id"] for document in there if found.get(document["_id"]) != document}
        return changed, new

    def without_id(document):
        return {name: value for name, value in document.items() if name != "_id"}

    null = '{"k": null, "x": 1}'
    assert run("delete", null) == ({"null"}, [])
    for mode in ("upsert", "merge"):
        assert run(mode, null) == ({"null"}, [])
        assert run(mode, null, there=before[::2]) == (set(), [{"k": None, "x": 1}])
        # Without the field a document is inserted, with its own `_id` as well.
        assert run(mode, '{"x": 1}') == (set(), [{"x": 1}])
        assert run(mode, '{"_id": "own", "x": 1}') == (set(), [{"x": 1}])
        assert run(mode, '{"_id": "one", "x": 1}', code=1) == (set(), [])
        # One of two fields finds what has not the other one.
        assert run(mode, '{"j": 1, "x": 1}', fields="j,k") == ({"none"}, [])
        assert run(mode, '{"j": 1, "k": null, "x": 1}', fields="j,k") == ({"null"}, [])
    assert run("delete", null, there=before[::2]) == (set(), [])
    assert run("delete", '{"x": 1}', code=1) == (set(), [])


def test_documents_without_the_upsert_fields_are_met_again(into, collection, tmp_path):
    file, state = tmp_path / "many.json", tmp_path / "state"
    good = [json.dumps({"n": n, "text": "x" * 1000, **({"_id": n} if n % 2 else {})}) + "\n" for n in range(6000)]
    file.write_text("".join(good) + "{\n")
    for mode in ("upsert", "merge"):
        flags = [*into, file, "--resume", state, "--mode", mode, "--upsertFields", "key"]
        file.write_text("".join(good) + "{\n")
        fail("import", *flags)
        state_before = json.loads(state.read_text())
        # As if the run had been killed before it could note what was written.
        state.write_text(json.dumps(state_before | {"offset": 0, "line": 1, "documents": 0}))
        file.write_text("".join(good))
        succeed("import", *flags)
        assert sorted(document["n"] for document in collection.find()) == list(range(6000))
        collection.delete_many({})


def test_a_flag_without_an_effect_is_refused_by_name(into, collection, tmp_path):
    collection.insert_one({"_id": 1, "k": 1, "a": 1})
    # Fields to find a document by ask for an upsert.
    said = quarry("import", *into, "--upsertFields", "k", text='{"k": 1, "b": 2}\n')
    assert said.returncode == 0 and "1 documents inserted or replaced" in said.stderr
    assert list(collection.find()) == [{"_id": 1, "k": 1, "b": 2}]
    for flags, name in [
        (["--mode", "insert", "--upsertFields", "k"], "--upsertFields"),
        (["--ignoreBlanks"], "--ignoreBlanks"),
        (["--stopOnError", "-j", 4], "--stopOnError"),
    ]:
        assert f"import: {name} goes with" in fail("import", *into, "--drop", *flags, text='{"_id": 2}\n')
    out = tmp_path / "out"
    for flags, name in [
        (["--noHeaderLine"], "--noHeaderLine"),
        (["--type", "csv", "--fields", "k", "--jsonArray"], "--jsonArray"),
        (["--type", "csv", "--fields", "k", "--jsonFormat", "canonical"], "--jsonFormat"),
    ]:
        assert f"export: {name} goes with" in fail("export", *into, "--out", out, *flags)
    assert not out.exists() and collection.count_documents({}) == 1


def test_an_export_of_no_collection_leaves_the_file_that_was_there(into, collection, database, tmp_path):
    file = tmp_path / "all.json"
    file.write_text("of yesterday")
    said = fail("export", *into, "--out", file)
    assert f"there is no collection `{database.name}.{collection.name}`" in said
    assert file.read_text() == "of yesterday" and list(tmp_path.iterdir()) == [file]
    database.create_collection(collection.name)
    database.create_collection("view", viewOn="nothing", pipeline=[])
    for name in (collection.name, "view"):
        succeed("export", *into[:-1], name, "--out", file, "--jsonArray")
        assert json.loads(file.read_text()) == []


def test_what_is_exported_comes_back(into, collection, database, server, tmp_path):
    documents = [
        {"_id": n, "text": "x" * n, "long": Int64(n), "double": float(n), "when": datetime.datetime(2020, 1, 1 + n % 28), "deep": {"list": [n, None]}}
        for n in range(3000)
    ]
    collection.insert_many(documents)
    raw = [bson.encode(document) for document in collection.find()]
    back = ["--uri", server.uri, "--db", database.name, "--collection", "back", "--drop"]
    for flags in ([], ["--jsonArray"]):
        file = tmp_path / "all.json"
        succeed("export", *into, "--jsonFormat", "canonical", "--out", file, *flags)
        succeed("import", *back, file)
        assert [bson.encode(document) for document in database.back.find().sort("_id", 1)] == raw
    exported = succeed("export", *into, "--query", '{"_id": {"$lt": 3}}', "--sort", '{"_id": -1}', "--limit", 2, "--fields", "long,deep.list")
    assert [json.loads(line) for line in exported.splitlines()] == [
        {"_id": 2, "long": 2, "deep": {"list": [2, None]}},
        {"_id": 1, "long": 1, "deep": {"list": [1, None]}},
    ]
    exported = succeed("export", *into, "--type", "csv", "--fields", "_id,text,deep.list,missing", "--skip", 2, "--limit", 1)
    assert exported == '_id,text,deep.list,missing\n2,xx,"[2,null]",\n'
    canonical = succeed("export", *into, "--jsonFormat", "canonical", "--limit", 1)
    assert json.loads(canonical) == json.loads(dumps(collection.find_one(), json_options=CANONICAL_JSON_OPTIONS))


def test_an_import_goes_on_where_it_was_ended(into, collection, tmp_path):
    file, state = tmp_path / "many.json", tmp_path / "state"
    good = [json.dumps({"n": n, "text": "x" * 500}) for n in range(20_000)]
    # The text behind is no JSON, which ends the first run after a part was written; the second meets it mended.
    file.write_text("\n".join(good[:12_000]) + "\n{\n")
    said = fail("import", *into, file, "--resume", state)
    assert "line 12001: the document that begins here does not end" in said
    before = collection.count_documents({})
    file.write_text("\n".join(good) + "\n")
    succeed("import", *into, file, "--resume", state)
    assert not state.exists() and before > 0
    assert sorted(document["n"] for document in collection.find()) == list(range(20_000))
    state.write_text("{}")
    assert "this is of another import" in fail("import", *into, file, "--resume", state)


def test_an_import_that_is_killed_has_every_document_once(into, collection, tmp_path):
    file, state = tmp_path / "many.json", tmp_path / "state"
    lines = [json.dumps({"n": n, "text": "x" * 500}) + "\n" for n in range(20_000)]
    # Through a pipe, so that the import is in the middle when it is killed, however fast it is.
    os.mkfifo(file)
    process = subprocess.Popen([binary(), "import", *into, str(file), "--resume", str(state)])
    with open(file, "w") as pipe:
        pipe.writelines(lines[:15_000])
        pipe.flush()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while collection.estimated_document_count() == 0:
            assert time.monotonic() < deadline
        process.kill()
        process.wait(PATIENCE_SECONDS)
    file.unlink()
    file.write_text("".join(lines))
    succeed("import", *into, file, "--resume", state)
    assert sorted(document["n"] for document in collection.find()) == list(range(20_000))


def test_a_write_whose_reply_is_lost_takes_effect_once(server, into, collection):
    cutter = Cutter(server.port, cuts=lambda request: names(request, "insert") and cutter.cuts == 0)
    lines = "".join(json.dumps({"_id": n, "text": "x" * 500}) + "\n" for n in range(3000))
    # Sent again without being known, the documents would be refused as there already.
    succeed("import", "--uri", cutter.uri, *into[2:], "--numInsertionWorkers", 1, text=lines)
    cutter.stop()
    assert cutter.cuts == 1 and collection.count_documents({}) == 3000


def test_the_order_of_the_file_is_kept_and_nothing_behind_a_refused_document_is_lost(into, collection, database):
    # A capped one has its documents in the order in which they were written.
    database.create_collection(collection.name, capped=True, size=20_000_000)
    collection.insert_one({"_id": 700})
    lines = "".join(json.dumps({"_id": n, "text": "x" * 1000}) + "\n" for n in range(5000, 0, -1))
    assert "1 documents were refused" in fail("import", *into, "--maintainInsertionOrder", text=lines)
    assert collection.count_documents({}) == 5000
    found = [document["_id"] for document in collection.find({}, {"text": 0})]
    assert found == [700, *(n for n in range(5000, 0, -1) if n != 700)]
    flags = ["--maintainInsertionOrder", "--numInsertionWorkers", 4]
    assert "goes with one connection" in fail("import", *into, *flags, text=lines)


def test_a_document_that_is_too_large_is_named_by_its_line(into, collection):
    large = json.dumps({"_id": 2, "text": "x" * (17 << 20)})
    said = fail("import", *into, text=f'{{"_id": 1}}\n{large}\n{{"_id": 3}}\n')
    assert "line 2: a document of 178" in said and "1 documents were refused" in said
    assert [document["_id"] for document in collection.find()] == [1, 3]


def test_flags_are_looked_at_before_anything_is_done(into, collection, tmp_path):
    collection.insert_one({"_id": 1})
    bad = ["--drop", "--mode", "upsert", "--upsertFields", "a,,b"]
    assert "--upsertFields" in fail("import", *into, *bad, text='{"_id": 2}\n')
    assert collection.count_documents({}) == 1
    uri = into[1].replace("mongodb://", "mongodb://ada@")
    said = fail("import", "--uri", uri, *into[2:], "--passwordFile", "-", text="secret\n")
    assert "cannot both be the standard input" in said
    file = tmp_path / "one.json"
    file.write_text('{"_id": 1}\n')
    delete = [file, "--resume", tmp_path / "state", "--mode", "delete"]
    assert "--resume does not go with --mode delete" in fail("import", *into, *delete)


def test_an_import_that_goes_on_tells_its_own_documents_from_others(into, collection, tmp_path):
    file, state = tmp_path / "many.json", tmp_path / "state"
    # The `_id` is not in front, where the server puts it.
    good = [json.dumps({"n": n, "_id": n, "text": "x" * 1000}) + "\n" for n in range(6000)]
    collection.insert_one({"_id": 3, "n": "of somebody else"})
    file.write_text("".join(good) + "{\n")
    fail("import", *into, file, "--resume", state)
    assert collection.count_documents({}) > 1000
    state_before = json.loads(state.read_text())
    # As if the run had been killed before it could note what was written.
    state.write_text(json.dumps(state_before | {"offset": 0, "line": 1, "documents": 0}))
    file.write_text("".join(good))
    said = fail("import", *into, file, "--resume", state)
    assert "line 4: E11000" in said and "line 5:" not in said and "were there from the run before" in said
    assert "1 documents were refused" in said and collection.count_documents({}) == 6000


def test_dates_of_go_have_z_or_an_offset(into, collection, tmp_path):
    rows = "1,2024-02-29T13:05:09Z\n2,2024-02-29T15:05:09+02:00\n"
    types = ["--type", "csv", "--columnsHaveTypes", "--fields", "_id.int32(),at.date(2006-01-02T15:04:05Z07:00)"]
    succeed("import", *into, *types, text=rows)
    assert [document["at"] for document in collection.find()] == [datetime.datetime(2024, 2, 29, 13, 5, 9)] * 2


def test_an_export_that_fails_leaves_the_file_that_was_there(server, into, collection, tmp_path):
    collection.insert_many([{"_id": n, "text": "x" * 1000} for n in range(1000)])
    file = tmp_path / "all.json"
    succeed("export", *into, "--out", file)
    whole = file.read_bytes()
    collection.insert_one({"_id": "new"})
    cutter = Cutter(server.port, cuts=lambda request: names(request, "getMore"))
    assert "lost" in fail("export", "--uri", cutter.uri, *into[2:], "--out", file)
    cutter.stop()
    assert file.read_bytes() == whole and list(tmp_path.iterdir()) == [file]
    succeed("export", *into, "--out", file)
    assert len(file.read_text().splitlines()) == 1001 and list(tmp_path.iterdir()) == [file]


def test_parquet_of_pyarrow_is_imported_with_its_types(into, collection, tmp_path):
    file = tmp_path / "rows.parquet"
    at = datetime.datetime(2024, 2, 29, 13, 5, 9, 123456, tzinfo=datetime.UTC)
    rows = {
        "_id": pa.array([1, 2], pa.int32()),
        "truth": pa.array([True, None], pa.bool_()),
        "small": pa.array([-5, 5], pa.int8()),
        "long": pa.array([1, 2], pa.int64()),
        "unsigned": pa.array([7, 2**64 - 1], pa.uint64()),
        "half": pa.array([1.5, -2.0], pa.float32()),
        "price": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-0.01")], pa.decimal128(9, 2)),
        "wide": pa.array([decimal.Decimal("0.5"), None], pa.decimal256(60, 1)),
        "text": pa.array(["käse", ""], pa.large_string()),
        "word": pa.array(["a", "a"]).dictionary_encode(),
        "raw": pa.array([b"\x00\xff", b""], pa.binary()),
        "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        "day": pa.array([at.date(), None], pa.date32()),
        "at": pa.array([at, at], pa.timestamp("us", tz="UTC")),
        "time": pa.array([datetime.time(0, 0, 1), None], pa.time32("ms")),
        "list": pa.array([[1, None], []], pa.list_(pa.int32())),
        "deep": pa.array([{"a": [{"b": "x"}]}, None], pa.struct([("a", pa.list_(pa.struct([("b", pa.string())])))])),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
        "uuid": pa.array([uuid.UUID(int=7).bytes, None], pa.uuid()),
    }
    for codec in ("none", "snappy", "gzip", "lz4", "zstd"):
        pq.write_table(pa.table(rows), file, compression=codec, row_group_size=1)
        ended = quarry("import", *into, file, "--drop")
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr.count("dates of `at` were cut to milliseconds") == 1
        options = collection.codec_options.with_options(uuid_representation=UuidRepresentation.STANDARD)
        one, two = collection.with_options(options).find().sort("_id", 1)
        assert one == {
            "_id": 1,
            "truth": True,
            "small": -5,
            "long": 1,
            "unsigned": 7,
            "half": 1.5,
            "price": Decimal128("1.50"),
            "wide": Decimal128("0.5"),
            "text": "käse",
            "word": "a",
            "raw": b"\x00\xff",
            "fixed": b"ab",
            "day": datetime.datetime(2024, 2, 29),
            "at": datetime.datetime(2024, 2, 29, 13, 5, 9, 123000),
            "time": 1000,
            "list": [1, None],
            "deep": {"a": [{"b": "x"}]},
            "map": {"k": 1},
            "uuid": uuid.UUID(int=7),
        }
        assert isinstance(one["long"], Int64) and not isinstance(one["small"], Int64)
        assert two["unsigned"] == Decimal128(str(2**64 - 1)) and two["truth"] is None and two["map"] == {} and two["deep"] is None
    succeed("import", *into, file, "--drop", "--ignoreBlanks")
    assert "truth" not in collection.find_one({"_id": 2})


def test_parquet_is_exported_for_pyarrow_and_comes_back(server, into, collection, database, tmp_path):
    documents = [
        {
            "_id": ObjectId(),
            "n": n,
            "long": Int64(n),
            "double": n / 2,
            "text": "x" * (n % 50),
            "at": datetime.datetime(2020, 1, 1 + n % 28),
            "price": Decimal128(f"{n}.50"),
            "free": Decimal128(f"{n}E+3"),
            "uuid": Binary(uuid.UUID(int=n).bytes, 4),
            "raw": bytes([n % 256]),
            "regex": Regex("a", "i"),
            "clock": Timestamp(n, 1),
            "mixed": [1, "x", None][n % 3],
            "deep": {"list": [{"p": n}, {"q": None}], "empty": {}},
            **({"maybe": [None, n][n % 2]} if n % 4 else {}),
        }
        for n in range(3000)
    ]
    collection.insert_many(documents)
    raw = [document.raw for document in collection.with_options(RAW).find().sort("_id", 1)]
    file = tmp_path / "all.parquet"
    succeed("export", *into, "--type", "parquet", "--out", file)
    table = pq.read_table(file)
    types = {field.name: str(field.type) for field in table.schema}
    assert table.num_rows == 3000 and pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"
    assert types["_id"] == "fixed_size_binary[12]" and types["n"] == "int32" and types["long"] == "int64" and types["double"] == "double"
    assert types["at"] == "timestamp[ms, tz=UTC]" and types["price"] == "decimal128(38, 2)" and types["free"] == "string"
    rows = table.to_pylist()
    assert rows[7]["_id"] == documents[7]["_id"].binary and rows[7]["n"] == 7 and rows[7]["price"] == decimal.Decimal("7.50")
    assert rows[7]["deep"]["list"] == [{"p": 7, "q": None, "q:null": None}, {"p": None, "q": None, "q:null": True}]
    assert json.loads(rows[1]["mixed"]) == "x" and json.loads(rows[0]["mixed"]) == {"$numberInt": "1"}
    back = ["--uri", server.uri, "--db", database.name, "--collection", "back", "--drop"]
    succeed("import", *back, file)
    assert [document.raw for document in database.back.with_options(RAW).find().sort("_id", 1)] == raw
    # What another writer makes of it keeps the metadata, and a part of the columns is a file as well.
    pq.write_table(table.select(["_id", "n", "price"]), file)
    succeed("import", *back, file)
    assert database.back.find_one({"n": 7}) == {"_id": documents[7]["_id"], "n": 7, "price": Decimal128("7.50")}


def test_a_document_that_does_not_fit_the_columns_is_named(into, collection, tmp_path):
    collection.insert_many([{"_id": n, "a": n} for n in range(20)] + [{"_id": 20, "a": "x"}])
    file = tmp_path / "all.parquet"
    said = fail("export", *into, "--type", "parquet", "--out", file, "--sampleDocuments", 10)
    assert "document 21 (_id: 20): field `a` is String, and its column has Int32" in said and not list(tmp_path.iterdir())
    succeed("export", *into, "--type", "parquet", "--out", file, "--sampleDocuments", 10, "--overflow", "rest")
    last = pq.read_table(file).to_pylist()[20]
    assert last["a"] is None and json.loads(last["rest"]) == {"a": "x"}
    typed = ["--fields", "_id.int64(),a.json()", "--columnsHaveTypes"]
    succeed("export", *into, "--type", "parquet", "--out", file, *typed)
    assert pq.read_schema(file).names == ["_id", "a"] and str(pq.read_schema(file).field("_id").type) == "int64"
    succeed("import", *into, file, "--drop")
    assert collection.count_documents({}) == 21 and collection.find_one({"_id": 20})["a"] == "x"
    assert "go with Parquet" in fail("export", *into, "--overflow", "x")
    assert "names of fields go with CSV and TSV" in fail("import", *into, file, "--fields", "a")


def test_parquet_that_is_cut_or_damaged_is_named(into, collection, tmp_path):
    file = tmp_path / "rows.parquet"
    table = pa.table({"_id": list(range(4000)), "text": [f"text {n}" for n in range(4000)]})
    pq.write_table(table, file, row_group_size=1000, compression="snappy", use_dictionary=False)
    whole = file.read_bytes()
    chunk = pq.ParquetFile(file).metadata.row_group(2).column(1)
    place = chunk.data_page_offset + chunk.total_compressed_size // 2
    file.write_bytes(whole[:place] + b"\xff" * 200 + whole[place + 200 :])
    said = fail("import", *into, file)
    assert "row group 3, column `text`: " in said and "panicked" not in said
    file.write_bytes(whole[:-100])
    assert "does not end with PAR1" in fail("import", *into, file)
    file.write_bytes(b"PAR1" + b"\x00" * 100 + b"\xff\xff\xff\x7fPAR1")
    assert "does not fit in the file" in fail("import", *into, file)
    assert "not from the standard input" in fail("import", *into, "--type", "parquet", text="x")


def test_an_import_of_parquet_goes_on_where_it_was_ended(into, collection, tmp_path):
    file, state = tmp_path / "many.parquet", tmp_path / "state"
    table = pa.table({"n": list(range(40_000)), "text": [f"{n} " * 100 for n in range(40_000)]})
    pq.write_table(table, file, row_group_size=5000, compression="none", use_dictionary=False)
    whole = file.read_bytes()
    chunk = pq.ParquetFile(file).metadata.row_group(6).column(1)
    broken = bytearray(whole)
    broken[chunk.data_page_offset : chunk.data_page_offset + 30] = b"\xff" * 30
    file.write_bytes(broken)
    # One connection, by which batches are written in their order, so that the state is behind some of them.
    assert "row group 7, column `text`" in fail("import", *into, file, "--resume", state, "-j", 1)
    before, place = collection.count_documents({}), json.loads(state.read_text())["line"]
    assert before > 10_000 and place > 1
    file.write_bytes(whole)
    succeed("import", *into, file, "--resume", state)
    assert not state.exists()
    assert sorted(document["n"] for document in collection.find({}, {"n": 1})) == list(range(40_000))


def test_rows_that_cannot_be_taken_are_named(into, collection, tmp_path):
    file = tmp_path / "rows.parquet"
    collection.insert_one({"_id": 2})
    large = [decimal.Decimal(1), decimal.Decimal(1), decimal.Decimal(10**50)]
    pq.write_table(pa.table({"_id": [1, 2, 3], "d": pa.array(large, pa.decimal256(60, 0))}), file)
    said = fail("import", *into, file)
    assert "row 2: E11000" in said and "row 3: column `d`: a decimal of more than 34 digits" in said
    assert "1 documents imported" in said and "2 documents were refused" in said
    pq.write_table(pa.table({"_id": [1, 2], "key": [5, 6]}), file)
    succeed("import", *into, file, "--mode", "upsert")
    assert list(collection.find().sort("_id", 1)) == [{"_id": 1, "key": 5}, {"_id": 2, "key": 6}]
