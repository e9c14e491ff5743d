"""Jobs of APScheduler that outlive their scheduler: `use_apscheduler.py URI DATABASE`. Prints what was stored and run as JSON."""

import datetime
import json
import sys
import threading

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.jobstores.mongodb import MongoDBJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from pymongo import MongoClient

SECONDS_MAX = 60
RAN = []


def run(word):
    RAN.append(word)


def scheduler(client, name):
    return BackgroundScheduler(jobstores={"default": MongoDBJobStore(database=name, collection="jobs", client=client)}, timezone="UTC")


def main(uri, name):
    now = datetime.datetime.now(datetime.timezone.utc)
    # A scheduler that ends closes the client.
    first = scheduler(MongoClient(uri), name)
    first.start(paused=True)
    first.add_job(run, "date", run_date=now, args=["once"], id="once", misfire_grace_time=SECONDS_MAX)
    first.add_job(run, "interval", hours=1, args=["hourly"], id="hourly")
    first.add_job(run, "cron", hour=3, args=["nightly"], id="nightly")
    try:
        first.add_job(run, "interval", hours=2, args=["again"], id="hourly")
        taken = False
    except ConflictingIdError:
        taken = True
    first.pause_job("nightly")
    first.remove_job("hourly")
    first.add_job(run, "interval", seconds=1, args=["often"], id="often", next_run_time=now, misfire_grace_time=SECONDS_MAX)
    first.shutdown()

    ended = threading.Semaphore(0)
    second = scheduler(MongoClient(uri), name)
    second.add_listener(lambda _: ended.release(), EVENT_JOB_EXECUTED)
    second.start()
    for _ in range(3):
        assert ended.acquire(timeout=SECONDS_MAX)
    left = {job.id: job.next_run_time is not None for job in second.get_jobs()}
    second.shutdown()
    print(json.dumps({"taken": taken, "ran": sorted(set(RAN)), "left": left}))


if __name__ == "__main__":
    main(*sys.argv[1:])
