"""Sends tasks to a worker and waits for what they return: `use_celery.py`. Prints that as JSON."""

import json

from celery import chain, chord, group
from celery_tasks import add, app, broken, flaky, total

SECONDS_MAX = 60


def main():
    sent = add.delay(2, 3)
    failed = broken.delay()
    failed.get(timeout=SECONDS_MAX, propagate=False)
    said = {
        "id": sent.id,
        "one": sent.get(timeout=SECONDS_MAX),
        "failed": (failed.state, type(failed.result).__name__, str(failed.result)),
        "chain": chain(add.s(1, 2), add.s(10), add.s(100)).delay().get(timeout=SECONDS_MAX),
        "group": group(add.s(number, number) for number in range(5)).delay().get(timeout=SECONDS_MAX),
        "chord": chord([add.s(1, 1), add.s(2, 2)], total.s()).delay().get(timeout=SECONDS_MAX),
        "flaky": flaky.delay().get(timeout=SECONDS_MAX),
        "later": add.apply_async((4, 4), countdown=0.3).get(timeout=SECONDS_MAX),
        "answered": [list(each.values())[0] for each in app.control.ping(timeout=5, limit=1)],
    }
    sent.forget()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
