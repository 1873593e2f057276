"""A shard's epoch, which is a function for ``mapInArrow``: reads and writes state, sends to Kafka, reports.

The function gives no rows.  It begins with the committed version, and nothing else, and ends with a report to the
driver, which is what an epoch is committed by.
"""

from __future__ import annotations

import gc
import os
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import records
import standby
import worker
from mixedmode.state.store.local_copy import process_cache
from mixedmode.state.store.state_manifest import StateManifest
from pieces import ChangeLog
from pyspark import TaskContext
from timeline import Timeline

#: Seconds between two pieces of an epoch's change log.
_CUT_S = 5.0


@dataclass(frozen=True)
class Job:
    """What the shards of a run know.

    Args:
        folder: of the run.
        bootstrap: the broker's address.
        target: the topic that they send to.
        run: its number, half of the token.
        first_record: the number of the record that holds the committed position that the run begins at.
    """

    folder: str
    bootstrap: str
    target: str
    run: int
    first_record: int


def function(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark calls for each shard and epoch."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return Epoch(job).run(batches)

    return work


class Epoch:
    """An epoch of a shard, in a task.

    Args:
        job: of the shard.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._cpu_began = time.process_time()
        context = TaskContext.get()
        assert context is not None
        self._shard, self._number = context.partitionId(), int(context.getLocalProperty("streaming.sql.batchId"))
        self._log = Timeline(
            f"{job.folder}/events.jsonl", who=f"shard {self._shard}", epoch=self._number, pid=os.getpid()
        )
        self._log("shard called")
        worker.watch_collections(self._log)
        #: How many rows of each source partition came, and the sum of their offsets.
        self._counts: dict[str, int] = {}
        self._sums: dict[str, int] = {}
        #: Of each row in us: when it was produced, came, and was handed to the producer.
        self._produced, self._arrived, self._sent = array("q"), array("q"), array("q")
        self._slowest_ns, self._slowest_at_ns = 0, 0
        self._token = f"{job.run}|{self._number}|{self._shard}|".encode()

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All of it."""
        self._open()
        # Full collections walk all that pyspark and pyarrow have loaded; what flows here is no garbage of cycles.
        gc.freeze()
        gc.disable()
        self._log("shard ready")
        self._take(batches)
        self._prepare()
        gc.enable()
        self._log("shard ends", cpu_s=round(time.process_time() - self._cpu_began, 2))
        self._log.close()
        yield pa.record_batch({"key": pa.array([], pa.string()), "value": pa.array([], pa.string())})

    def _open(self) -> None:
        """The committed version, as soon as it is committed, here and as a standby of the other shard."""
        job, cache, other = self._job, process_cache(), 1 - self._shard
        number = job.first_record + self._number
        committed = records.wait_for(f"{job.folder}/log", number)
        if committed["kind"] != "commit" or (committed["run"] != job.run and self._number):
            raise RuntimeError(f"record {number} is not the commit of epoch {self._number - 1} of run {job.run}")
        self._log("shard commit seen")
        manifests = [StateManifest.from_json(each) for each in committed["shards"]]
        before = cache.hits, cache.applies, cache.rebuilds, cache.files_brought
        copy = standby.acquire(cache, job.folder, self._shard, manifests[self._shard])
        after = cache.hits, cache.applies, cache.rebuilds, cache.files_brought
        # Copies that were as wanted, were brought up, were made anew; files that were brought in.
        self._log("shard opened", how=[new - old for old, new in zip(before, after, strict=True)])
        # pyarrow imports pandas and 360 modules with its first array: not in the way of a row.
        pa.array([b""], pa.binary())
        names = [f"{job.run}-{self._number}-{shard}" for shard in (self._shard, other)]
        self._standby = standby.Standby(cache, job.folder, other, names[1], manifests[other], self._log)
        self._changes = ChangeLog(job.folder, names[0], str(os.getpid()), self._number, copy, self._log)
        self._producer = worker.kafka_producer(job.bootstrap, job.target, self._log)

    def _take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """The rows, until Spark ends the epoch."""
        next_cut = time.time() + _CUT_S
        for batch in batches:
            for row in batch.column(0).to_pylist():
                if row:  # no marker
                    self._process(row)
            if time.time() >= next_cut:
                self._changes.tell()
                self._changes.cut()
                self._standby.follow()
                next_cut = time.time() + _CUT_S
        ended, cpu_s = time.time(), time.process_time() - self._cpu_began
        if self._sent:
            self._log("shard last row", at=self._sent[-1] / 1e6)
        slowest = {"worst_row_ms": round(self._slowest_ns / 1e6, 1), "worst_at": self._slowest_at_ns / 1e9}
        self._log("shard end of rows", at=ended, rows=len(self._sent), cpu_s=round(cpu_s, 2), **slowest)

    def _process(self, row: str) -> None:
        """Change the state of a row's key, and send the row."""
        at = time.time_ns()
        if not self._sent:
            self._log("shard first row", at=at / 1e9)
        partition, offset, group, key, value = row.split("|", 4)
        self._counts[partition] = self._counts.get(partition, 0) + 1
        self._sums[partition] = self._sums.get(partition, 0) + int(offset)
        stored = int(group).to_bytes(2, "big") + key.encode()
        old = self._changes.get(stored)
        # How often, and a digest of the values in order: the state of a key depends on the order of its rows.
        count = (int.from_bytes(old[:8], "big") + 1).to_bytes(8, "big")
        digest = zlib.crc32(value.encode(), int.from_bytes(old[8:], "big")).to_bytes(4, "big")
        self._changes.put(stored, count + digest)
        sequence = str(len(self._sent) + 1).encode()
        self._producer.produce(self._job.target, key=key, value=value, headers=[("at", self._token + sequence)])
        self._producer.poll(0)
        done = time.time_ns()
        self._produced.append(int(value.rpartition("|")[2]))
        self._arrived.append(at // 1000)
        self._sent.append(done // 1000)
        if done - at > self._slowest_ns:
            self._slowest_ns, self._slowest_at_ns = done - at, at

    def _prepare(self) -> None:
        """Make all that the epoch did durable, and tell the driver."""
        self._changes.cut(last=True)
        self._log("shard log written")
        left = self._producer.flush()
        self._log("shard broker flushed", left=left)
        files = self._changes.durable()
        self._log("shard log durable", files=len(files), bytes=sum(file.size_bytes for file in files))
        name = f"{self._job.run}-{self._number}-{self._shard}"
        report = {
            **{"run": self._job.run, "epoch": self._number, "shard": self._shard},
            **{"counts": self._counts, "sums": self._sums, "files": [file.to_json() for file in files]},
        }
        records.hand_over(f"{self._job.folder}/reports/{name}", report, synced=True)
        self._log("shard reported")
        with open(f"{self._job.folder}/rows/{self._number}-{self._shard}", "wb") as file:
            for column in (self._produced, self._arrived, self._sent):
                column.tofile(file)
