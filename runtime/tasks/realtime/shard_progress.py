"""Tells how far a shard has come within its epoch: about once a second, in a small file that nothing depends on.

Rows must not wait for it.  What a portion adds is kept as it is, and summed up when it is told.  On a local disk the
task writes between two portions; elsewhere, where a write takes longer, a thread does, and less often.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....state.keys.keygroups import ShardId
from ...support.ids import BatchId
from .latency_histogram import EpochProgress
from .run_folder import RunFolder

#: So many portions are kept at most before they are summed up.
_MOST_PORTIONS = 4096


class ShardProgress:
    """The progress of one attempt of a shard.

    Args:
        folder: where it is told.
        batch: the epoch's, by Spark's number.
        shard: the shard.
    """

    def __init__(self, folder: RunFolder, batch: BatchId, shard: ShardId) -> None:
        self._folder, self._batch, self._shard = folder, batch, shard
        self._so_far = EpochProgress()
        self._portions: list[npt.NDArray[np.int64]] = []
        self._tell_at_s = time.monotonic() + folder.progress_interval_s
        self._has_news = False
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None

    def add(self, times_ms: pa.Array) -> None:
        """A portion is processed, and its output handed over.

        Args:
            times_ms: of its messages, ms since 1970.
        """
        now_ms = time.time_ns() // 1_000_000
        self._portions.append(now_ms - times_ms.to_numpy(zero_copy_only=False))
        self._has_news = True
        if len(self._portions) >= _MOST_PORTIONS:
            self._sum_up()

    def look(self) -> None:
        """Between two portions: tell what is new if it is time."""
        if self._has_news and time.monotonic() >= self._tell_at_s:
            self._tell()

    def before_wait(self, wait: Callable[[float], bool]) -> None:
        """Before the task waits for rows, which may take long: tell what is new if none come soon.

        Args:
            wait: waits so many seconds for rows at most, and says whether some are there.
        """
        if self._has_news and not wait(max(self._tell_at_s - time.monotonic(), 0.0)):
            self._tell()

    def finish(self) -> EpochProgress:
        """All of it; nothing is told any more."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
        self._sum_up()
        return self._so_far

    def _sum_up(self) -> None:
        if self._portions:
            latencies = np.concatenate(self._portions)
            self._portions = []
            self._so_far.rows += len(latencies)
            self._so_far.latencies.add(latencies)

    def _tell(self) -> None:
        if self._writing is not None and not self._writing.done():
            return
        self._has_news, self._tell_at_s = False, time.monotonic() + self._folder.progress_interval_s
        self._sum_up()
        data = self._so_far.to_bytes()
        if self._folder.is_local:
            self._write(data)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mixedmode-progress")
        self._writing = self._thread.submit(self._write, data)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # progress must not fail a task, and its run may be over
            self._folder.write_progress(self._batch, self._shard, data)
