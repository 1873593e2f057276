"""Measures an attempt of a shard task: time by phase, bytes, and whether its state was at hand.

Times of phases are exclusive: waiting for input is not counted as sorting or processing, although the operator pulls
its rows through both.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from ....state.store.local_copy import LocalStateCache


class Laps:
    """Wall time by name, in the order in which the names first came."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._last = time.monotonic()

    def mark(self, name: str) -> None:
        """What has passed since the last mark belongs to this name."""
        now = time.monotonic()
        self.add(name, now - self._last)
        self._last = now

    def add(self, name: str, seconds: float) -> None:
        self._seconds[name] += seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count the time of a block."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - started)

    def of(self, *names: str) -> float:
        """Seconds of some names together."""
        return sum(self._seconds[name] for name in names)

    @property
    def ms(self) -> dict[str, int]:
        """Whole milliseconds by name."""
        return {name: round(seconds * 1000) for name, seconds in self._seconds.items()}


class TaskMeter:
    """The measurements of an attempt, or of several, one after the other; they go into the reports.

    Phases: ``restore`` (bring the local copy to the manifest), ``read`` (wait for and take in rows), ``sort``,
    ``process`` (the operator).  How long it takes to close files and make them durable, a
    :class:`.durable_files.Publication` measures.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.counts: Counter[str] = Counter(startedAtMs=round(time.time() * 1000))
        self._laps = Laps()

    @contextmanager
    def restoring(self, cache: LocalStateCache) -> Iterator[None]:
        """Around an acquisition: how the local copy was found, and what had to be brought in."""
        before = (cache.rebuilds, cache.files_brought, cache.bytes_brought)
        with self._laps.timed("restore"):
            yield
        rebuilt, files, size_bytes = (
            now - then
            for now, then in zip((cache.rebuilds, cache.files_brought, cache.bytes_brought), before, strict=True)
        )
        self.counts.update(
            replicaHits=0 if rebuilt else 1, replicaMisses=rebuilt, stateFilesRead=files, stateBytesRead=size_bytes
        )

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, with their bytes and the time to get them."""
        for batch in self._pulled(batches, "read"):
            self.counts["inputBytes"] += batch.nbytes
            yield batch
            del batch  # not held while the next one is made

    def sorting(self) -> AbstractContextManager[None]:
        """Around handing rows to the sorter."""
        return self._laps.timed("sort")

    def merged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sorter's output, with the time to get it."""
        return self._pulled(batches, "sort")

    def _pulled(self, batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
        while True:
            with self._laps.timed(name):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch
            del batch

    @contextmanager
    def processing(self) -> Iterator[None]:
        """Around the operator, whose pulling of rows is counted as reading and sorting."""
        started, others = time.monotonic(), self._laps.of("read", "sort")
        try:
            yield
        finally:
            pulled = self._laps.of("read", "sort") - others
            self._laps.add("process", time.monotonic() - started - pulled)

    def finish(self) -> tuple[dict[str, int], dict[str, int]]:
        """Durations in ms by phase, and counts, of an attempt; what comes is the next one's."""
        self.counts["endedAtMs"] = round(time.time() * 1000)
        found = self._laps.ms, dict(self.counts)
        self._begin()
        return found
