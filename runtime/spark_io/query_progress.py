"""Reads Spark's progress records of a query's micro-batches in few calls to the JVM.

PySpark asks for each entry of a record by itself, which takes some eighty calls, and does so for whoever only wants to
know which micro-batch it is about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from ..support.ids import BatchId


def executed_batches(query: StreamingQuery, first: int) -> dict[BatchId, list[Mapping[str, Any]]]:
    """What Spark tells of the sources of each micro-batch that it is done with, by number, in order.

    Args:
        query: the query.
        first: the micro-batch to begin with; Spark forgets old ones.
    """
    last = query._jsq.lastProgress()
    number = -1 if last is None else int(last.batchId())
    if number < first:
        return {}
    found = [last]
    if number > first:
        found = []
        for record in reversed(query._jsq.recentProgress()):
            if record.batchId() < first:
                break
            found.insert(0, record)
    records = [json.loads(str(record.json())) for record in found]
    # While nothing comes Spark tells of that, too, under the number of the next micro-batch.
    return {BatchId(int(one["batchId"])): one["sources"] for one in records if "addBatch" in one.get("durationMs", ())}
