"""A task sees what Spark has sent it, without waiting and without taking it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator

import pyarrow as pa
from mixedmode.runtime.jvm.worker.worker_input import WorkerInput
from pyspark.sql import SparkSession


def test_what_was_sent_is_seen_and_stays() -> None:
    """In the socket, and in the stream's own buffer; at the end there is nothing."""
    local, remote = socket.socketpair()
    with remote, local, os.fdopen(os.dup(local.fileno()), "rb", 64) as stream:
        given = WorkerInput(stream)
        assert not given.has_more()
        remote.sendall(b"abcd")
        assert given.has_more()
        assert stream.read(3) == b"abc"
        assert given.has_more(), "it is in the buffer"
        assert stream.read(1) == b"d"
        assert not given.has_more()
        assert os.get_blocking(stream.fileno()), "whoever reads waits"
        remote.shutdown(socket.SHUT_WR)
        assert not given.has_more()


def test_outside_of_a_task_nothing_is_known() -> None:
    """Then there is never more."""
    given = WorkerInput.of_this_task()
    assert not given.is_known
    assert not given.has_more()


def test_a_task_finds_its_stream(spark: SparkSession) -> None:
    """PySpark's functions have it under the name that is looked for."""

    def sees(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from mixedmode.runtime.jvm.worker.worker_input import WorkerInput

        given = WorkerInput.of_this_task()
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"known": [given.is_known], "rows": [rows]})

    found = spark.range(10).repartition(1).mapInArrow(sees, "known boolean, rows long").collect()
    assert [(row.known, row.rows) for row in found] == [(True, 10)]
