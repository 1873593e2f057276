"""What every micro-batch took, for Spark's queries and for ours: a listener sees them all.

The live source of ours is a Structured Streaming query too, and its ``triggerExecution`` covers all that a micro-batch
costs: offsets, planning, logs, and in ``addBatch`` our epoch.  So both sides are measured by the same clock of Spark's.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from mixedmode import MixedQuery
from mixedmode.runtime.connectors.sources import live_query
from mixedmode.runtime.spark_io.shown_query import HiddenSession
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import JStreamingQueryListener, QueryProgressEvent, StreamingQueryProgress

_PATIENCE_S = 900


class _AsJson(JStreamingQueryListener):
    """Fetches a progress record in one call: PySpark makes hundreds, which would load the machine that is measured."""

    def onQueryProgress(self, jevent: Any) -> None:
        progress = StreamingQueryProgress.fromJson(json.loads(jevent.progress().json()))
        self.pylistener.onQueryProgress(QueryProgressEvent(progress))


class MicroBatches(StreamingQueryListener):
    """Collects the progress of all queries, by run id."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._progress: dict[str, list[Any]] = defaultdict(list)
        #: Called after each micro-batch, on the listener's thread.
        self.after_each: Callable[[Any], None] | None = None

    @property
    def _jlistener(self) -> Any:
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_AsJson(self))
        return self._jlistenerobj

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        # Neither those that tell of an idle query, nor what stands for a job of ours: both write no log.
        if "walCommit" not in progress.durationMs:
            return
        if self.after_each is not None:
            self.after_each(progress)
        with self._changed:
            self._progress[str(progress.runId)].append(progress)
            self._changed.notify_all()

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    def of(self, run_id: str) -> list[Any]:
        """The micro-batches of a run so far."""
        with self._changed:
            return list(self._progress[run_id])

    def run_ids(self) -> set[str]:
        """Runs that have had a micro-batch."""
        with self._changed:
            return {run for run, progress in self._progress.items() if progress}

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until events have made something true (the condition's lock is held while it is asked)."""
        deadline = time.monotonic() + _PATIENCE_S
        with self._changed:
            while not true():
                if not self._changed.wait(timeout=max(deadline - time.monotonic(), 0)):
                    raise TimeoutError(f"{what}: not after {_PATIENCE_S} s")

    def wait_for(self, run_id: str, count: int) -> None:
        """Wait until a run has had so many micro-batches."""
        self.wait_until(lambda: len(self._progress[run_id]) >= count, f"{count} micro-batches of {run_id}")

    def wait_for_one(self, count: int) -> list[Any]:
        """Wait until a run has had so many micro-batches; its micro-batches."""
        self.wait_until(lambda: any(len(each) >= count for each in self._progress.values()), f"{count} micro-batches")
        return next(each for each in map(self.of, self.run_ids()) if len(each) >= count)


@contextmanager
def watched(spark: SparkSession) -> Iterator[MicroBatches]:
    """A listener that is there for a while, and is told of our live sources' queries, too, which others do not see."""
    listener = MicroBatches()

    class Watched(HiddenSession):
        def __init__(self, origin: SparkSession) -> None:
            super().__init__(origin)
            self.session.streams.addListener(listener)

        def close(self) -> None:
            """Stay: what it has told last is still on its way."""

    spark.streams.addListener(listener)
    hidden, live_query.HiddenSession = live_query.HiddenSession, Watched  # type: ignore[misc]
    try:
        yield listener
    finally:
        live_query.HiddenSession = hidden  # type: ignore[misc]
        spark.streams.removeListener(listener)


def trigger_s(progress: Any) -> float:
    """Seconds of one micro-batch."""
    return float(progress.durationMs["triggerExecution"]) / 1000


def parts(batches: list[Any]) -> str:
    """Where the time of the median micro-batch goes, by Spark's own clock."""
    names = sorted({name for batch in batches for name in batch.durationMs} - {"triggerExecution"})
    middle = {name: median([batch.durationMs.get(name, 0) for batch in batches]) for name in names}
    return ", ".join(f"{name} {middle[name]:.0f} ms" for name in sorted(names, key=lambda name: -middle[name]))


class Feed:
    """A landing folder that gets one file after another, each a micro-batch.

    Args:
        folder: the landing folder; made here.
        files: what will land, in this order.
    """

    def __init__(self, folder: Path, files: list[str]) -> None:
        self.folder = folder
        self._files = iter(enumerate(files))
        folder.mkdir(parents=True)

    def land(self) -> None:
        """One more file, at once visible as a whole."""
        number, path = next(self._files)
        (self.folder / f"{number:05d}.parquet").symlink_to(path)


def live_run(query: MixedQuery) -> str:
    """The run of the live source's query, once it is there: we have just seen our query's live phase begin."""
    deadline, live = time.monotonic() + _PATIENCE_S, query._runner.context.live
    assert live is not None
    while live.query is None or not live.query.isActive:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the live source's query has not started in {_PATIENCE_S} s")
        time.sleep(0.01)
    return str(live.query.runId)
