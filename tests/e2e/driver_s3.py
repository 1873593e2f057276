"""A job on an object store in a process of its own: ``python driver_s3.py <uri> <life>``."""

from __future__ import annotations

import json
import os
import sys

import s3_support
import support
from pyspark import cloudpickle
from s3_support import EVENTS, Place, started

#: What lands while the job is live, by its life; the last life has the rest.
LIVE = {"first": (), "second": (EVENTS[120:160],), "third": (EVENTS[160:], support.flush_after(EVENTS))}


def main(root: str, life: str) -> None:
    cloudpickle.register_pickle_by_value(s3_support)
    said = json.loads(os.environ["TEST_HADOOP"])
    spark = support.driver_session(settings={f"spark.hadoop.{name}": text for name, text in said.items()})
    place = Place(spark, root)
    query = started(place, place.job().writeStream, path=f"{root}/out")
    for events in LIVE[life]:
        place.land(events)
        query.processAllAvailable()
    query.stop()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
