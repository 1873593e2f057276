"""A job on an object store in a process of its own: ``python driver_s3.py <uri> <life>``.

With ``TEST_HALTING`` it dies when the bucket of this name halts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import s3_server
import s3_support
import support
from pyspark import cloudpickle
from s3_support import EVENTS, Place, started

#: What lands while the job is live, by its life; the last life has the rest.
LIVE = {"first": (), "second": (EVENTS[120:160],), "third": (EVENTS[160:], support.flush_after(EVENTS))}


def main(root: str, life: str) -> None:
    cloudpickle.register_pickle_by_value(s3_support)
    said = json.loads(os.environ["TEST_HADOOP"])
    if bucket := os.environ.get("TEST_HALTING"):
        address = said["fs.s3a.endpoint"].removeprefix("http://")
        threading.Thread(target=_die_with, args=(address, bucket), daemon=True).start()
    spark = support.driver_session(settings={f"spark.hadoop.{name}": text for name, text in said.items()})
    place = Place(spark, root)
    query = started(place, place.job().writeStream, path=f"{root}/out")
    for events in LIVE[life]:
        place.land(events)
        query.processAllAvailable()
    query.stop()
    os._exit(0)


def _die_with(address: str, bucket: str) -> None:
    while s3_server.halted(address, bucket) is None:
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
