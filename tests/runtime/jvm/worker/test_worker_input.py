"""A task sees what Spark has sent it, without waiting and without taking it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
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


def test_a_wait_ends_with_what_is_sent_or_the_time() -> None:
    """What is in the stream's own buffer is there, too; so is the end.  Where nobody knows, nobody waits."""
    local, remote = socket.socketpair()
    with remote, local, os.fdopen(os.dup(local.fileno()), "rb", 64) as stream:
        given = WorkerInput(stream)
        assert not given.wait(0.01)
        later = threading.Timer(0.01, remote.sendall, [b"abcd"])
        later.start()
        assert given.wait(60)
        later.join()
        assert stream.read(3) == b"abc"
        assert given.wait(0), "it is in the buffer"
        assert stream.read(1) == b"d"
        assert not given.wait(0)
        remote.shutdown(socket.SHUT_WR)
        assert given.wait(60)
    assert WorkerInput(None).wait(60)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="this system has no such option")
def test_what_has_arrived_is_acknowledged_at_once() -> None:
    """A kernel that waits with it, 40 ms, keeps a sender of small pieces from sending the next one."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as local:
        remote, _ = server.accept()
        with remote, os.fdopen(os.dup(local.fileno()), "rb", 64) as stream:
            local.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            given = WorkerInput(stream)
            assert not local.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
            given.acknowledge()
            assert local.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)


def test_other_streams_are_not_acknowledged() -> None:
    """Sockets of one machine and pipes have no such delay; nor is there anything outside of a task."""
    local, remote = socket.socketpair()
    reads, writes = os.pipe()
    with remote, local, os.fdopen(os.dup(local.fileno()), "rb") as stream, os.fdopen(reads, "rb") as pipe:
        for given in (WorkerInput(stream), WorkerInput(pipe), WorkerInput(None)):
            given.acknowledge()
        assert stream.fileno() >= 0 and pipe.fileno() >= 0
    os.close(writes)


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
