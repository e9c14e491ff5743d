"""A plugin of pytest for PyMongo's own tests: bounds each test's time and writes down how it ended.

$SUITE_OUTCOMES names the file: a JSON object of test ids and how each ended: `passed`, `failed` or `skipped`, behind it the
beginning of the error, if there was one. A test whose parts end differently has the worst of them. $SUITE_SECONDS is the time
of a test.
"""

import json
import os
import signal

import pytest

SECONDS = float(os.environ.get("SUITE_SECONDS", "60"))
RANK = {"passed": 0, "skipped": 1, "failed": 2}
OUTCOMES = {}
ERROR_CHARACTERS = 300


def too_long(*_):
    raise TimeoutError(f"the test took more than {SECONDS:g} s")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    del item
    before = signal.signal(signal.SIGALRM, too_long)
    # It fires again, for tests that catch what they should not.
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def pytest_runtest_logreport(report):
    outcome = report.outcome
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
        json.dump(OUTCOMES, file, indent=1, sort_keys=True)
