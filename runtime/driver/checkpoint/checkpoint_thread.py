"""The thread on which checkpoints are completed beside the epochs.

Its Spark jobs are in a pool of their own: where the session schedules fairly (``spark.scheduler.mode = FAIR``) they
share the cores with the epochs' instead of being in front of them, by the weight that the allocation file gives to the
pool (1 without one, as every pool's).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from contextvars import Context, copy_context

from pyspark.sql import SparkSession

from ...catalyst.spark_session import activate
from ...connectors.sources.live_query import Stopped

logger = logging.getLogger(__name__)

#: Pool of the FAIR scheduler in which checkpoints are completed.
POOL = "mixedmode-checkpoints"

#: How often whoever waits for a user's function looks whether the run was given up.
LOOK_EVERY_S = 0.2

Work = Callable[[], None]


def wait_unless_given_up(done: threading.Event, given_up: threading.Event) -> None:
    """Wait for what a user's function may keep from ever happening.

    Raises:
        Stopped: the run was given up.
    """
    while not done.wait(LOOK_EVERY_S):
        if given_up.is_set():
            raise Stopped


class CompletingThread:
    """Does one thing after the other; begins with the first.

    Args:
        spark: the job's session, which is the thread's, too.
        name: of the thread.
        done: called after each thing.
        tag: Spark's jobs of the thread can be cancelled by it; None: they have none.
        given_up: set when nobody waits for it any more: a user's function in it may never return.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        done: Callable[[], object],
        tag: str | None = None,
        given_up: threading.Event | None = None,
    ) -> None:
        self._spark = spark
        self._name = name
        self._done = done
        self._tag = tag
        self._given_up = given_up or threading.Event()
        self._queue: queue.SimpleQueue[tuple[Context, Work] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def thread_id(self) -> int | None:
        """Which thread it is; None: it has not begun."""
        return None if self._thread is None else self._thread.ident

    def __call__(self, work: Work) -> None:
        """Have something done; whatever goes wrong in there is its own to keep."""
        if self._thread is None:
            # A daemon: a user's function that never returns does not keep the process.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put((copy_context(), work))

    def wait_for(self, work: Work) -> None:
        """Have something done, and return when it is.

        Raises:
            Stopped: the run was given up meanwhile.
        """
        at_rest = threading.Event()

        def do() -> None:
            try:
                work()
            finally:
                at_rest.set()

        self(do)
        wait_unless_given_up(at_rest, self._given_up)

    def close(self) -> None:
        """End when all is done; of a run that was given up nobody waits for that."""
        if self._thread is not None:
            self._queue.put(None)
            while self._thread.is_alive() and not self._given_up.is_set():
                self._thread.join(LOOK_EVERY_S)
            if not self._thread.is_alive():
                self._thread = None

    def _run(self) -> None:
        try:
            # Users' functions ask for "the" session, and Spark for its settings, on this thread, too.
            activate(self._spark)
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
            if self._tag is not None:
                self._spark.sparkContext.addJobTag(self._tag)
        except Exception as error:  # Spark is gone, which the work will find out by itself
            logger.info("the thread of checkpoints is not Spark's: %s", error)
        while (item := self._queue.get()) is not None:
            context, work = item
            context.run(work)
            self._done()
