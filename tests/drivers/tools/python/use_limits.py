"""Rates of the library limits: `use_limits.py URI DATABASE`. Prints who was let through as JSON."""

import json
import sys

from limits import RateLimitItemPerHour
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter


def main(uri, name):
    storage = storage_from_string(uri, database_name=name)
    said = {"healthy": storage.check()}
    three = RateLimitItemPerHour(3)
    for kind in (FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter):
        limiter = kind(storage)
        let = [limiter.hit(three, kind.__name__, "ann") for _ in range(5)]
        other = limiter.hit(three, kind.__name__, "bob")
        remaining = limiter.get_window_stats(three, kind.__name__, "ann").remaining
        limiter.clear(three, kind.__name__, "ann")
        said[kind.__name__] = (let, other, remaining, limiter.test(three, kind.__name__, "ann"))
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
