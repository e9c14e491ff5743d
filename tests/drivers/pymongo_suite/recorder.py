"""A plugin of pytest for PyMongo's own tests: bounds each test's time and writes down how it ended.

$SUITE_OUTCOMES names the file: a JSON object of test ids and how each ended: `passed`, `failed` or `skipped`, behind it the
beginning of the error, if there was one, and the seconds that it took. A test whose parts end differently has the worst of them.
$SUITE_SECONDS is the time of a test.
"""

import contextlib
import json
import os
import signal

import pytest

SECONDS = float(os.environ.get("SUITE_SECONDS", "60"))
RANK = {"passed": 0, "skipped": 1, "failed": 2}
OUTCOMES = {}
TOOK_SECONDS = {}
ERROR_CHARACTERS = 300


class TooLong(BaseException):
    """The time of a test is over. The driver takes no such error for one of the network, which it would get over."""


def too_long(*_):
    raise TooLong(f"the test took more than {SECONDS:g} s")


# Only what a test does itself is interrupted: an alarm amid pytest's own work on its outcome would end the whole run.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    del item
    with bounded():
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    del item
    with bounded():
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    del item
    with bounded():
        yield


@contextlib.contextmanager
def bounded():
    before = signal.signal(signal.SIGALRM, too_long)
    # It fires again, for tests that catch what they should not.
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_runtest_logreport(report):
    outcome = report.outcome
    TOOK_SECONDS[report.nodeid] = TOOK_SECONDS.get(report.nodeid, 0) + report.duration
    if getattr(report, "wasxfail", None) is not None:
        # The suite itself expects it to fail.
        outcome = "skipped"
    note(report, outcome)


def pytest_collectreport(report):
    if report.failed:
        note(report, "failed")


def note(report, outcome):
    known = OUTCOMES.get(report.nodeid)
    if known and RANK[known[0]] >= RANK[outcome]:
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    error = (crash.message if crash else str(report.longrepr)) if outcome == "failed" else ""
    OUTCOMES[report.nodeid] = [outcome, error[:ERROR_CHARACTERS]]


def pytest_sessionfinish():
    with open(os.environ["SUITE_OUTCOMES"], "w", encoding="utf-8") as file:
        timed = {test: [*how, round(TOOK_SECONDS.get(test, 0), 2)] for test, how in OUTCOMES.items()}
        json.dump(timed, file, indent=1, sort_keys=True)
