"""Encryption at rest: nothing of the data stands in the files, keys are asked for, and what was changed on the disk is told."""

import base64
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest
from crash_load import given_seed, kill_under_load
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from quarry_process import Quarry, binary

ROUNDS = int(os.environ.get("QUARRY_CRASH_ROUNDS", "4"))
MARKER = b"Zq8:a marker of no repetition/4fK"
DOCUMENTS = 2000
# Files that are not encrypted, and say nothing of the data: lock, port, the history of figures.
PLAIN = {"quarry.lock", "quarry.port", "quarry.history"}


def key_file(directory, name="key", mode=0o600, text=None):
    path = pathlib.Path(directory) / name
    path.write_text(text or base64.b64encode(os.urandom(32)).decode() + "\n")
    path.chmod(mode)
    return path


def with_key(key):
    return ["--enableEncryption", "--encryptionKeyFile", str(key)]


def quarry(*arguments):
    command = [binary(), *map(str, arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)


def refusal(directory, engine="rocksdb", arguments=()):
    """What a start that is refused says, and its exit code."""
    command = ["serve", "--dbpath", directory, "--engine", engine, "--port", "0", "--adminPort", "off", *arguments]
    ended = quarry(*command)
    assert ended.returncode != 0
    return ended.returncode, ended.stdout + ended.stderr


def files_in(directory):
    return sorted(path for path in pathlib.Path(directory).rglob("*") if path.is_file())


def holding(directory, marker=MARKER):
    return {path.parent.name for path in files_in(directory) if marker in path.read_bytes()}


def noise(number, length):
    return random.Random(number).randbytes(length)


def document(number):
    """Of a text in key and value that no compression shortens."""
    marker = MARKER.decode()
    return {"_id": f"{marker}{number}", "n": number, "text": f"{number}{marker}", "noise": noise(number, 300)}


def fill(server):
    """Documents that are in the journal, and in the engine's files once the server has stopped."""
    with MongoClient(server.uri) as client:
        things = client.shop.things
        things.create_index("text")
        for start in range(0, DOCUMENTS, 500):
            things.insert_many([document(number) for number in range(start, start + 500)])
        client.shop.get_collection(MARKER.decode()).insert_one({"_id": MARKER.decode()})


def check(server):
    with MongoClient(server.uri) as client:
        found = list(client.shop.things.find().sort("n", 1))
        assert found == [document(number) for number in range(DOCUMENTS)]
        assert client.shop.get_collection(MARKER.decode()).count_documents({}) == 1


@pytest.fixture
def key(tmp_path):
    return key_file(tmp_path)


@pytest.fixture
def encrypted(tmp_path, key):
    """A directory with data, which no server uses any more."""
    server = Quarry(tmp_path / "data", "rocksdb", with_key(key)).start()
    fill(server)
    assert server.stop() == 0
    return server


def test_nothing_of_the_data_stands_in_any_file(tmp_path, key):
    plain = Quarry(tmp_path / "plain", "rocksdb").start()
    sealed = Quarry(tmp_path / "sealed", "rocksdb", with_key(key)).start()
    try:
        fill(plain)
        fill(sealed)
        # As they lie there while the server runs.
        assert "journal" in holding(plain.directory), "without encryption it does"
        assert holding(sealed.directory) == set()
        for server, is_enabled in [(plain, False), (sealed, True)]:
            with MongoClient(server.uri) as client:
                status = client.admin.command("serverStatus")["encryptionAtRest"]
                assert status["encryptionEnabled"] is is_enabled
    finally:
        stopped = [plain.stop(), sealed.stop()]
    assert stopped == [0, 0]
    assert {"rocksdb", "journal"} <= holding(plain.directory), "without encryption it does"
    assert holding(sealed.directory) == set()
    for words in [b"shop", b"things", b"leveldb.Bytewise"]:
        assert holding(plain.directory, words)
        assert holding(sealed.directory, words) == set()
    sealed.start()
    check(sealed)
    with MongoClient(sealed.uri) as client:
        spilled = client.shop.things.aggregate(
            [{"$sort": {"noise": 1}}, {"$group": {"_id": None, "n": {"$sum": 1}}}], allowDiskUse=True
        )
        assert spilled.next()["n"] == DOCUMENTS
        client.shop.things.insert_one(document(DOCUMENTS))
    sealed.kill()
    assert holding(sealed.directory) == set()


def test_operations_spill_to_disk_encrypted(tmp_path, key):
    arguments = ["--setParameter", "internalQueryMaxBlockingSortMemoryUsageBytes=65536", *with_key(key)]
    server = Quarry(tmp_path / "data", "rocksdb", arguments).start()
    try:
        fill(server)
        with MongoClient(server.uri) as client:
            things = client.shop.things
            found = list(things.find().sort("noise", 1).allow_disk_use(True))
            assert [one["noise"] for one in found] == sorted(noise(number, 300) for number in range(DOCUMENTS))
            plan = client.shop.command(
                "explain", {"find": "things", "sort": {"noise": 1}, "allowDiskUse": True}, verbosity="executionStats"
            )
            assert plan["executionStats"]["executionStages"]["usedDisk"]
        assert server.stop() == 0
    finally:
        if server.running():
            server.kill()


def test_a_directory_is_opened_with_its_key_or_not_at_all(tmp_path, key, encrypted):
    before = {path: path.read_bytes() for path in files_in(encrypted.directory) if path.name not in PLAIN}
    other = key_file(tmp_path, "other")
    for arguments, code, why in [
        ((), 100, "it is encrypted"),
        (with_key(other), 100, "another key"),
        (["--enableEncryption"], 2, "needs --encryptionKeyFile"),
        (["--encryptionKeyFile", key], 2, "needs --enableEncryption"),
        (with_key(tmp_path / "nowhere"), 2, "No such file"),
        (with_key(key_file(tmp_path, "open", 0o644)), 2, "too open"),
        (with_key(key_file(tmp_path, "short", text="c2hvcnQ=")), 2, "5 bytes"),
        ([*with_key(key), "--encryptionCipherMode", "AES256-CBC"], 2, "AES256-GCM"),
        ([*with_key(key), "--kmipServerName", "keys"], 2, "key server"),
    ]:
        refused, said = refusal(encrypted.directory, arguments=arguments)
        assert (refused, why in said) == (code, True), said
    after = {path: path.read_bytes() for path in files_in(encrypted.directory) if path.name not in PLAIN}
    assert after == before
    encrypted.start()
    check(encrypted)
    assert encrypted.stop() == 0

    plain = Quarry(tmp_path / "plain", "rocksdb").start()
    assert plain.stop() == 0
    code, said = refusal(plain.directory, arguments=with_key(key))
    assert code == 100 and "not encrypted" in said, said
    assert not (plain.directory / "quarry.keystore").exists()
    code, said = refusal(tmp_path / "mapped", "mdbx", with_key(key))
    assert code == 2 and "mdbx" in said and "maps its file" in said, said
    assert not (tmp_path / "mapped").exists()


def test_a_lost_keystore_is_told_and_not_made_anew(key, encrypted):
    keystore = encrypted.directory / "quarry.keystore"
    kept = keystore.read_bytes()
    keystore.unlink()
    for arguments in [with_key(key), ()]:
        code, said = refusal(encrypted.directory, arguments=arguments)
        assert code == 100, said
        assert not keystore.exists()
    for at in range(0, len(kept), 9):
        keystore.write_bytes(kept[:at] + bytes([kept[at] ^ 4]) + kept[at + 1 :])
        code, said = refusal(encrypted.directory, arguments=with_key(key))
        assert code == 100 and "damaged" in said, said
    keystore.write_bytes(kept)
    encrypted.start()
    check(encrypted)
    assert encrypted.stop() == 0


def test_the_engine_in_memory_has_nothing_to_encrypt(tmp_path, key):
    server = Quarry(tmp_path / "data", "memory", with_key(key)).start()
    fill(server)
    assert holding(server.directory) == set()
    assert server.stop() == 0
    code, said = refusal(tmp_path / "data", "memory", with_key(key_file(tmp_path, "open", 0o644)))
    assert code == 2 and "too open" in said, said


def test_a_key_is_rotated_and_the_data_stays(tmp_path, key, encrypted):
    new = key_file(tmp_path, "new")
    command = ["rotate-key", "--dbpath", encrypted.directory, "--encryptionKeyFile"]
    data = {path: path.read_bytes() for path in files_in(encrypted.directory) if path.name not in PLAIN}
    keystore = encrypted.directory / "quarry.keystore"
    wrong = quarry(*command, new, "--newKeyFile", key)
    assert wrong.returncode == 100 and "another key" in wrong.stderr, wrong.stderr
    assert keystore.read_bytes() == data[keystore]
    running = encrypted.start()
    used = quarry(*command, key, "--newKeyFile", new)
    assert used.returncode == 100 and "in use" in used.stderr, used.stderr
    assert running.stop() == 0
    data = {path: path.read_bytes() for path in files_in(encrypted.directory) if path.name not in PLAIN}
    # A rotation that was cut off before its rename has left this.
    (encrypted.directory / "quarry.keystore.new").write_bytes(b"half")
    rotated = quarry(*command, key, "--newKeyFile", new)
    assert rotated.returncode == 0 and "generation 2" in rotated.stdout, rotated
    after = {path: path.read_bytes() for path in files_in(encrypted.directory) if path.name not in PLAIN}
    assert {path for path in data if data[path] != after[path]} == {keystore}
    assert set(after) == set(data)
    code, said = refusal(encrypted.directory, arguments=with_key(key))
    assert code == 100 and "another key" in said, said
    server = Quarry(encrypted.directory, "rocksdb", with_key(new)).start()
    check(server)
    assert server.stop() == 0
    nowhere = quarry("rotate-key", "--dbpath", tmp_path / "none", "--encryptionKeyFile", key, "--newKeyFile", new)
    assert nowhere.returncode == 100 and "not encrypted" in nowhere.stderr, nowhere.stderr
    assert not (tmp_path / "none").exists()


def test_the_archive_of_the_journal_is_encrypted_and_leads_to_a_moment_without_the_key(tmp_path, key):
    archive, repository, restored = tmp_path / "archive", tmp_path / "repository", tmp_path / "restored"
    server = Quarry(tmp_path / "data", "rocksdb", [*with_key(key), "--journalArchive", str(archive)]).start()
    place = ["--journalArchive", archive]
    try:
        assert quarry("backup", "create", "--dbpath", server.directory, "--to", repository).returncode == 0
        fill(server)
        flushed = quarry("archive", "flush", "--dbpath", server.directory)
        assert flushed.returncode == 0, flushed.stderr
        lsn = re.search(r"up to record (\d+)", flushed.stdout)[1]
        with MongoClient(server.uri) as client:
            client.shop.things.delete_many({})
        assert quarry("archive", "flush", "--dbpath", server.directory).returncode == 0
    finally:
        stopped = server.stop()
    assert stopped == 0
    assert any(archive.glob("*.piece")) and holding(archive) == set()
    verified = quarry("archive", "verify", *place)
    assert verified.returncode == 0 and "whole" in verified.stdout, verified
    listed = quarry("archive", "list", *place, "--from", repository)
    assert listed.returncode == 0 and "can be restored to any moment" in listed.stdout, listed
    made = quarry("restore", "--from", repository, *place, "--to-lsn", lsn, "--dbpath", restored)
    assert made.returncode == 0, made.stderr
    code, said = refusal(restored)
    assert code == 100 and "it is encrypted" in said, said
    moment = Quarry(restored, "rocksdb", with_key(key)).start()
    check(moment)
    assert moment.stop() == 0
    assert holding(restored) == set()


def test_a_rotation_killed_at_any_moment_leaves_one_key_or_the_other(tmp_path, key, encrypted):
    keys, generation = [key, key_file(tmp_path, "new")], 1
    chance = random.Random(given_seed())
    for _ in range(20):
        command = ["rotate-key", "--dbpath", encrypted.directory, "--encryptionKeyFile", keys[0], "--newKeyFile", keys[1]]
        process = subprocess.Popen([binary(), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            process.wait(chance.uniform(0, 0.02))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        opens = [
            quarry("journal", "verify", "--dbpath", encrypted.directory, "--encryptionKeyFile", one).returncode == 0
            for one in keys
        ]
        assert sorted(opens) == [False, True]
        if opens[1]:
            keys.reverse()
            generation += 1
    server = Quarry(encrypted.directory, "rocksdb", with_key(keys[0])).start()
    check(server)
    assert server.stop() == 0
    assert f'"generation":{generation}' in server.tail().replace(" ", "")


def test_backups_stay_encrypted_and_are_served_with_the_key_of_their_time(tmp_path, key, encrypted):
    repository = tmp_path / "repository"
    encrypted.start()
    made = quarry("backup", "create", "--dbpath", encrypted.directory, "--to", repository)
    assert made.returncode == 0, made.stderr
    assert encrypted.stop() == 0
    assert holding(repository) == set()
    verified = quarry("backup", "verify", "--from", repository)
    assert verified.returncode == 0, verified.stderr
    new = key_file(tmp_path, "new")
    rotate = ["rotate-key", "--dbpath", encrypted.directory, "--encryptionKeyFile", key, "--newKeyFile", new]
    assert quarry(*rotate).returncode == 0
    restored = tmp_path / "restored"
    done = quarry("restore", "--from", repository, "--dbpath", restored)
    assert done.returncode == 0, done.stderr
    assert holding(restored) == set()
    for arguments in [(), with_key(new)]:
        assert refusal(restored, arguments=arguments)[0] == 100
    server = Quarry(restored, "rocksdb", with_key(key)).start()
    check(server)
    assert server.stop() == 0


def test_the_journal_is_looked_at_with_the_key(tmp_path, key, encrypted):
    place = ["--dbpath", encrypted.directory]
    for arguments in [(), ("--encryptionKeyFile", key_file(tmp_path, "other"))]:
        refused = quarry("journal", "verify", *place, *arguments)
        assert refused.returncode == 100, refused
    place += ["--encryptionKeyFile", key]
    verified = quarry("journal", "verify", *place)
    assert verified.returncode == 0 and "the chain is whole" in verified.stdout, verified
    dumped = quarry("journal", "dump", *place, "--records")
    assert dumped.returncode == 0 and MARKER.hex() in dumped.stdout
    assert re.search(r"records? [\d to]+, encrypted", dumped.stdout)


def test_users_are_made_with_the_key(tmp_path, key):
    password = key_file(tmp_path, "password", text="secret\n")
    command = ["user", "add", "ada", "--dbpath", tmp_path / "data", "--passwordFile", password]
    assert quarry(*command, "--encryptionKeyFile", key).returncode == 0
    assert quarry(*command).returncode == 100
    server = Quarry(tmp_path / "data", "rocksdb", with_key(key)).start()
    assert server.stop() == 0


def damaged_copy(source, target, path, chance):
    """The directory with one flipped bit in that file."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    damaged = target / path.relative_to(source)
    content = bytearray(damaged.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    damaged.write_bytes(content)


def test_a_flipped_bit_is_an_error_and_never_other_data(tmp_path, key, encrypted):
    """Where nothing is said of it, nothing that counts was hit: all the data is there, as it was."""
    chance = random.Random(given_seed())
    told = 0
    copy = tmp_path / "copy"
    # A journal is zeros for the most part: the bit is flipped where something was written.
    for path in [path for path in files_in(encrypted.directory / "rocksdb") if path.stat().st_size] * 2:
        damaged_copy(encrypted.directory, copy, path, chance)
        server = Quarry(copy, "rocksdb", with_key(key))
        try:
            server.start()
            check(server)
        except (RuntimeError, PyMongoError):
            told += 1
        finally:
            if server.running():
                server.kill()
    assert told >= 4


def test_every_acknowledged_write_survives_sigkill(tmp_path, key):
    kill_under_load(Quarry(tmp_path / "data", "rocksdb", with_key(key)), ROUNDS, given_seed())
    assert holding(tmp_path / "data", b"leveldb.Bytewise") == set()
