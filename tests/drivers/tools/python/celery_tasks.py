"""An application of Celery: broker and results are in the database that the environment names."""

import os

from celery import Celery

HOST = os.environ["QUARRY_URI"].rstrip("/")
NAME = os.environ["QUARRY_DATABASE"]

app = Celery("celery_tasks", broker=f"{HOST}/{NAME}_broker", backend=f"{HOST}/{NAME}")
app.conf.update(
    broker_transport_options={"polling_interval": 0.05},
    broker_connection_retry_on_startup=True,
    task_track_started=True,
    result_extended=True,
)


@app.task
def add(left, right):
    return left + right


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def broken():
    raise ValueError("no such file")


@app.task(bind=True, max_retries=3)
def flaky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries
