"""Tells how far the epoch in hand is: about once a second it sums up what the shards of a run have told.

It is for people only.  What it says is of the epoch and the run in hand, as the folder is the run's own and files have
the epoch's number; no commit looks at it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from ....state.keys.keygroups import ShardId
from ...metrics.events.event_parts import Latencies
from ...metrics.events.events import RealTimeProgressed
from ...support.ids import NO_BATCH, NO_EPOCH, BatchId, EpochNumber
from ...tasks.realtime.latency_histogram import EpochProgress, LatencyHistogram
from ...tasks.realtime.run_folder import RunFolder

logger = logging.getLogger(__name__)

#: So many looks are the last seconds, whose rate and latencies are told.
_LOOKS = 5
#: So many looks in a row may fail before it is logged.
_MOST_FAILURES = 5


class EpochWatch:
    """Looks at what shards tell, on a thread of its own.

    Args:
        folder: of the run.
        shards: how many there are.
        listener: gets what there is to be told.
        now_s: a monotonic clock.
    """

    def __init__(
        self,
        folder: RunFolder,
        shards: int,
        listener: Callable[[RealTimeProgressed], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._shards, self._listener, self._now_s = folder, shards, listener, now_s
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._batch, self._epoch, self._began_s = NO_BATCH, NO_EPOCH, 0.0
        #: What the epochs before were.
        self._before = EpochProgress()
        #: The newest that each shard has told.
        self._told: dict[ShardId, EpochProgress] = {}
        #: When there was how much of all epochs, the newest last.
        self._seen: deque[tuple[float, EpochProgress]] = deque(maxlen=_LOOKS + 1)
        #: What was told last of the epoch.
        self._last: RealTimeProgressed | None = None

    def begin(self, batch: BatchId, epoch: EpochNumber, before: EpochProgress | None = None) -> None:
        """Another epoch is in hand.

        Args:
            batch: its number at Spark.
            epoch: its number.
            before: what the one before has been in the end; None: there was none.
        """
        with self._lock:
            self._batch, self._epoch, self._began_s, self._told, self._last = batch, epoch, self._now_s(), {}, None
            if before is not None:
                self._before.include(before)
            if not self._seen:
                self._seen.append((self._began_s, EpochProgress()))

    def end(self) -> None:
        """The epoch in hand is over: no more is told of it."""
        with self._lock:
            self._batch = NO_BATCH

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Meanwhile, look again and again."""
        threading.Thread(target=self._run, name="mixedmode-realtime", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._over.set()

    def _run(self) -> None:
        failures = 0
        while not self._over.wait(self._folder.progress_interval_s):
            try:
                self.look()
                failures = 0
            except Exception as error:  # an object store that does not answer, say: no reason to end anything
                failures += 1
                if failures == _MOST_FAILURES:
                    logger.info("the progress of real-time epochs is unknown: %s: %s", type(error).__name__, error)

    def look(self) -> None:
        """Tell what is new."""
        batch = self._batch
        if batch == NO_BATCH:
            return
        read = {shard: self._folder.progress(batch, shard) for shard in map(ShardId, range(self._shards))}
        with self._lock:
            if self._over.is_set() or batch != self._batch:
                return  # it is of an epoch that is committed by now
            # Of a file that is being written the last state is known.
            self._told.update({shard: progress for shard, progress in read.items() if progress is not None})
            event = self._event(summed_up(self._told.values()))
            if event is not None:
                self._listener(event)

    def _event(self, total: EpochProgress) -> RealTimeProgressed | None:
        """How far the epoch is; None: that was told."""
        now_s, of_all = self._now_s(), summed_up([self._before, total])
        self._seen.append((now_s, of_all))
        since_s, earlier = self._seen[0]
        last_seconds = of_all.since(earlier)
        event = RealTimeProgressed(
            epoch=self._epoch,
            elapsed_s=round(now_s - self._began_s, 3),
            rows=total.rows,
            rows_per_second=round(last_seconds.rows / max(now_s - since_s, 1e-3), 3),
            latencies=latencies_of(last_seconds.latencies),
            epoch_latencies=latencies_of(total.latencies),
        )
        last, self._last = self._last, event
        is_news = last is None or last.rows != event.rows or last.rows_per_second or event.rows_per_second
        return event if is_news else None


def summed_up(found: Iterable[EpochProgress]) -> EpochProgress:
    """The progress of shards together."""
    total = EpochProgress()
    for one in found:
        total.include(one)
    return total


def latencies_of(histogram: LatencyHistogram) -> Latencies | None:
    """What is told of latencies; None: there are no messages."""
    if not histogram.messages:
        return None
    p50_ms, p99_ms = (histogram.percentile_ms(percent) for percent in (50, 99))
    return Latencies(p50_ms=p50_ms, p99_ms=p99_ms, max_ms=histogram.max_ms)
