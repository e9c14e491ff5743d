"""Runs PyMongo's own tests against Quarry, as a standalone and as a set of one, and holds the outcome against left.txt.

A test that fails must stand in left.txt, with the reason; one that stands there must fail. So the list can only shrink, and
each line of it is true. `run.py push` runs the files that every change must pass, `run.py all` all that a server is
asked in. `run.py push --identity set test_session.py` runs one file against one identity.

`push` only notes a test of the list that passes: whoever mends something must not find it red for that. `all` fails for it. A test
that failed unexpectedly is run a second time by itself: some measure time so closely that they fail beside other work.

PyMongo's source package lies in $DRIVERS_DIR/pymongo-suite (scripts/bootstrap.sh); the installed driver of the same
version is the one that is tested with.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
LEFT = HERE / "left.txt"
# More tests than this that fail unexpectedly do not fail for want of time.
AGAIN_MAX = 40
# The reason of a failure that nobody has looked at yet.
UNSORTED = "not looked at yet"
sys.path.insert(0, str(HERE.parent))

from quarry_process import Quarry  # noqa: E402  (found through the line above)

# What the suite wants of a server, and parts of it pass over without.
FOR_TESTS = ["--setParameter", "enableTestCommands=1", "--setParameter", "acceptApiVersion2=1"]
FLAGS = {
    "standalone": FOR_TESTS,
    "set": [*FOR_TESTS, "--replSet", "rs0"],
}
# What every change must pass, in a bounded time.
PUSH = [
    "test_session.py",
    "test_sessions_unified.py",
    "test_causal_consistency.py",
    "test_transactions.py",
    "test_transactions_unified.py",
    "test_retryable_reads.py",
    "test_retryable_reads_unified.py",
    "test_retryable_writes.py",
    "test_retryable_writes_unified.py",
    "test_change_stream.py",
    "test_crud_unified.py",
    "test_crud_v1.py",
    "test_client_bulk_write.py",
    "test_bulk.py",
    "test_collation.py",
    "test_read_concern.py",
    "test_read_write_concern_spec.py",
    "test_write_concern.py",
    "test_run_command.py",
    "test_comment.py",
    "test_collection_management.py",
    "test_command_monitoring.py",
    "test_client_backpressure.py",
    "test_connections_survive_primary_stepdown_spec.py",
    "test_load_balancer.py",
    "test_logger.py",
    "test_operation_id_retry.py",
    "test_threads.py",
]
# Of those files, what `all` alone runs: tests that wait for half a minute, and tests that measure time so closely that they fail
# beside other work.
UNHURRIED = [
    "test/test_connections_survive_primary_stepdown_spec.py::TestConnectionsSurvivePrimaryStepDown::test_get_more_iteration",
    "test/test_transactions_unified.py::TestUnifiedReadPref::test_secondary_readPreference",
    "test/test_transactions_unified.py::TestUnifiedRunCommand::test_run_command_fails_with_explicit_secondary_read_preference",
    "test/test_transactions_unified.py::TestUnifiedRunCommand::test_run_command_fails_with_secondary_read_preference_from_transaction_options",
    "test/test_transactions_unified.py::TestUnifiedErrorLabelsBlockConnection",
    "test/test_client_bulk_write.py::TestClientBulkWriteCSOT",
    "test/test_retryable_reads.py::TestRetryableReads::test_backoff_is_not_applied_for_non_overload_errors",
    "test/test_retryable_reads.py::TestRetryableReads::test_overload_then_nonoverload_retries_increased_reads",
]
# What asks no server anything, or the machine's names and environment, or a server on the port 27017 whatever port it is given.
OF_NO_SERVER = [
    "test/test_client.py::ClientUnitTest",
    "test/test_client.py::TestClient::test_handshake_",
    "test/test_client.py::TestClient::test_repr_srv_host",
    "test/test_client.py::TestClient::test_service_name_from_kwargs",
    "test/test_client.py::TestClient::test_srv_max_hosts_kwarg",
    "test/test_index_management.py::TestSearchIndex",
    "test/test_retryable_writes.py::TestErrorPropagationAfterEncounteringMultipleErrors",
    "test/test_read_preferences.py::TestMongosAndReadPreference::test_read_preference_hedge_deprecated",
]
ALL = [
    *PUSH,
    "test_client.py",
    "test_collection.py",
    "test_command_logging.py",
    "test_connection_monitoring.py",
    "test_csot.py",
    "test_cursor.py",
    "test_custom_types.py",
    "test_database.py",
    "test_discovery_and_monitoring.py",
    "test_examples.py",
    "test_gridfs.py",
    "test_gridfs_bucket.py",
    "test_gridfs_spec.py",
    "test_grid_file.py",
    "test_heartbeat_monitoring.py",
    "test_index_management.py",
    "test_monitoring.py",
    "test_pooling.py",
    "test_raw_bson.py",
    "test_read_preferences.py",
    "test_streaming_protocol.py",
    "test_unified_format.py",
    "test_versioned_api.py",
    "test_versioned_api_integration.py",
]


def read_left():
    """The tests that are expected to fail: `{identity: {test: reason}}`."""
    left = {identity: {} for identity in FLAGS}
    reason = None
    for number, line in enumerate(LEFT.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            reason = line[3:]
        elif line and not line.startswith("#"):
            identity, _, test = line.partition(" ")
            if reason is None or identity not in ("both", *FLAGS) or not test:
                raise SystemExit(f"left.txt:{number}: `IDENTITY TEST` below a line `## REASON` is expected")
            for name in FLAGS if identity == "both" else [identity]:
                if test in left[name]:
                    raise SystemExit(f"left.txt:{number}: {test} stands twice")
                left[name][test] = reason
    return left


def write_left(left):
    """Writes `left` by reason, in the order in which the reasons stand, and a test of both identities once."""
    head = [line for line in LEFT.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    reasons = dict.fromkeys(reason for tests in left.values() for reason in tests.values())
    lines = head
    for reason in reasons:
        lines += ["", f"## {reason}"]
        tests = {identity: {test for test, why in left[identity].items() if why == reason} for identity in FLAGS}
        for test in sorted(set.union(*tests.values())):
            of = [identity for identity in FLAGS if test in tests[identity]]
            lines.append(f"{'both' if len(of) == len(FLAGS) else of[0]} {test}")
    LEFT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def left_out(options):
    """The tests that are not run, by what their names begin with."""
    return [*OF_NO_SERVER, *(UNHURRIED if options.which == "push" else [])]


def run(identity, tests, sources, scratch, options):
    """How each test of these files, or each of these tests, ended: `{id: [passed, failed or skipped, error, seconds]}`."""
    outcomes = scratch / f"{identity}.json"
    outcomes.unlink(missing_ok=True)
    # A second run begins with nothing of the first.
    directory = tempfile.mkdtemp(prefix=f"data-{identity}-", dir=scratch)
    quarry = Quarry(directory, options.engine, FLAGS[identity]).start()
    try:
        environment = {
            **os.environ,
            "DB_IP": "127.0.0.1",
            "DB_PORT": str(quarry.port),
            "PYTHONPATH": str(HERE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SUITE_OUTCOMES": str(outcomes),
            "SUITE_SECONDS": str(options.test_seconds),
        }
        command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "--rootdir", str(sources), "-p", "recorder"]
        command += [] if options.verbose else ["--no-header", "--no-summary"]
        command += ["-k", options.k] if options.k else []
        command += [f"--deselect={test}" for test in left_out(options)]
        command += [f"test/{test.removeprefix('test/')}" for test in tests]
        with open(scratch / f"{identity}-tests.log", "ab") as log:
            output = None if options.verbose else log
            subprocess.run(command, cwd=sources, env=environment, stdout=output, stderr=output, timeout=options.seconds, check=False)
        if not quarry.running():
            raise SystemExit(f"the server ended:\n{quarry.tail()}")
    finally:
        if quarry.running():
            quarry.process.terminate()
            quarry.process.wait(30)
    if not outcomes.exists():
        raise SystemExit((scratch / f"{identity}-tests.log").read_text(errors="replace")[-4000:])
    return json.loads(outcomes.read_text(encoding="utf-8"))


def data_directories(_, names):
    return [name for name in names if name.startswith("data-") and not name.endswith(".log")]


def again(identity, unexpected, outcomes, sources, scratch, options):
    """Runs a few tests that failed unexpectedly by themselves, and takes over how they end now."""
    if not 0 < len(unexpected) <= AGAIN_MAX:
        return
    for test, outcome in run(identity, sorted(unexpected), sources, scratch, options).items():
        if outcome[0] == "passed" and test in unexpected:
            print(f"    {identity}: passed by itself: {test}")
            outcomes[test] = outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", choices=["push", "all"])
    parser.add_argument("files", nargs="*", help="only these files of PyMongo's test directory")
    parser.add_argument("--identity", choices=list(FLAGS), action="append")
    parser.add_argument("--engine", default="memory")
    parser.add_argument("--seconds", type=float, default=1800, help="the time of a whole run")
    parser.add_argument("--test-seconds", type=float, default=60, help="the time of a test")
    parser.add_argument("-k", help="only tests whose names fit, as for pytest")
    parser.add_argument("--slowest", type=int, default=0, help="name so many of the tests that took longest")
    parser.add_argument("--verbose", action="store_true", help="show what pytest says")
    parser.add_argument("--keep", type=pathlib.Path, help="a directory for what pytest and the servers said")
    parser.add_argument("--update", action="store_true", help="write left.txt anew: without what passes, with what fails")
    options = parser.parse_args()
    sources = (pathlib.Path(os.environ["DRIVERS_DIR"]) / "pymongo-suite").resolve()
    files = options.files or (PUSH if options.which == "push" else ALL)
    left = read_left()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    # What is wrong, and what is only to be told.
    wrong, noted = [], []
    with tempfile.TemporaryDirectory() as scratch:
        identities = list(options.identity or FLAGS)
        # Side by side: most of their time is waiting for what they have asked for.
        with concurrent.futures.ThreadPoolExecutor(len(identities)) as pool:
            runs = {identity: pool.submit(run, identity, files, sources, pathlib.Path(scratch), options) for identity in identities}
        for identity in identities:
            outcomes = runs[identity].result()
            is_run = lambda test: test.split("::")[0].removeprefix("test/") in files and not test.startswith(tuple(left_out(options)))  # noqa: E731
            expected = {test for test in left[identity] if is_run(test)}
            fails = lambda: {test for test, (outcome, *_) in outcomes.items() if outcome == "failed"}  # noqa: B023, E731
            again(identity, fails() - expected, outcomes, sources, pathlib.Path(scratch), options)
            failed = fails()
            for test in sorted(failed - expected):
                wrong.append(f"failed, and is not in left.txt: {identity} {test}\n    {outcomes[test][1]!r}")
                left[identity][test] = UNSORTED
            for test in sorted(expected - failed) if not options.k else ():
                line = f"stands in left.txt and is {outcomes.get(test, ['not there'])[0]}: {identity} {test}"
                (wrong if options.which == "all" else noted).append(line)
                del left[identity][test]
            for outcome, *_ in outcomes.values():
                counts[outcome] += 1
            seconds = sum(took for *_, took in outcomes.values())
            print(f"    {identity}: {len(outcomes)} tests in {seconds:.0f} s, {len(failed)} of them fail", flush=True)
            slowest = sorted(outcomes, key=lambda test: -outcomes[test][2])[: options.slowest]
            for test in slowest:
                print(f"        {outcomes[test][2]:.1f} s {test}")
        if options.keep:
            shutil.copytree(scratch, options.keep, dirs_exist_ok=True, ignore=data_directories)
    if options.update:
        write_left(left)
    for line in [*noted, *wrong]:
        print(line)
    print(f"{counts['passed']} passed, {len(wrong)} failed, {counts['failed']} left, {counts['skipped']} skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
