"""SIGTERM ends the queries of this process as their users would; a second one ends the process at once.

Whoever runs containers sends the signal to the driver's process alone (``docker stop``, Kubernetes), a terminal or a
service manager to all of its process group, and ``spark-submit`` gets it in the JVM, whose child the driver is.  A JVM
that is told to end waits until the queries have (:mod:`...jvm.jvm_shutdown`); Python workers have a process group
of their own.

The program is told nothing: its ``awaitTermination()`` returns, and what it does then is its own matter.

Invariants: the handler takes no lock that the code it interrupts may hold, and waits for nothing.  A handler of the
program's own is called after ours has begun; where the program ignores the signal, or handles it outside of Python,
there is none of ours.  A process that was forked off this one gets back the handler that was there before ours.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

from ...jvm.jvm_shutdown import ShutdownHook
from ...jvm.spark_errors import what_happened

logger = logging.getLogger(__name__)

End = Callable[[], object]

#: How long the JVM is kept for the program's main thread once its queries have ended.
_MAIN_THREAD_S = 5.0


class Sigterm:
    """Ends the queries of a process; there is one for all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: How each query is ended, oldest first; replaced as a whole, so that the handler reads it without the lock.
        self._active: tuple[End, ...] = ()
        #: The threads that end them; None: nobody has begun.
        self._ending: tuple[threading.Thread, ...] | None = None
        #: Held by whoever has begun: this process's handler, or the JVM, which may get the signal first.
        self._begun = threading.Lock()
        #: Whether this process has had the signal since.
        self._had_signal = False
        #: Whether the JVM has got it, and ends when we let it.
        self._jvm_had_signal = False
        #: The frame that the signal in hand has interrupted; None: no signal is in hand.
        self._interrupted: FrameType | None = None
        self._before: Any = signal.SIG_DFL
        self._process: int | None = None
        self._hook: ShutdownHook | None = None

    # -- queries -----------------------------------------------------------------------------------------------------

    def watch(self, end: End, spark: SparkSession) -> None:
        """From now on the signal ends a query.

        Args:
            end: ends it; called on a thread of its own, for each query at the same time.
            spark: its session.
        """
        with self._lock:
            self._active = (*self._active, end)
            if self._ending is not None:
                self._late(end, self._ending)
            self._install()
            if self._hook is None and self._handles:
                try:
                    self._hook = ShutdownHook(spark, self._jvm_ends)
                except Exception as error:
                    logger.warning(
                        "if Spark's JVM gets SIGTERM, too, it will not wait for queries: %s", what_happened(error)
                    )

    def _late(self, end: End, ending: tuple[threading.Thread, ...]) -> None:
        """A query has begun after the signal: it ends with the others, unless the program has begun anew."""
        if any(thread.is_alive() for thread in ending):
            thread = _thread(end)
            self._ending = (*ending, thread)
            thread.start()
        else:
            self._ending, self._had_signal = None, False
            self._begun.release()

    def forget(self, end: End) -> None:
        """A query has ended."""
        with self._lock:
            self._active = tuple(one for one in self._active if one != end)
            hook = None if self._active else self._hook
            if hook is not None:
                self._hook = None
        if hook is not None:
            hook.remove()

    @property
    def _handles(self) -> bool:
        return self._process == os.getpid()

    def _install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            if not self._handles:
                logger.info("SIGTERM ends the process at once: only the main thread can install a handler")
            return
        found = signal.getsignal(signal.SIGTERM)
        if found == self._on_signal and self._handles:
            return
        if found is None or found is signal.SIG_IGN:
            return  # whoever did that knows why
        if not self._handles:
            atexit.register(self._at_exit)
            os.register_at_fork(after_in_child=self._in_child)
        if found != self._on_signal:
            self._before = found
        self._process = os.getpid()
        signal.signal(signal.SIGTERM, self._on_signal)

    def _in_child(self) -> None:
        """Put the earlier handler back in a process that was forked off.

        With ours, a signal that comes between the interpreter's last look for signals and a system call that blocks
        would wait until that call returns.
        """
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, self._before)

    def _at_exit(self) -> None:
        """The program ends with queries that run: nobody is here for the JVM to call."""
        hook, self._hook = self._hook, None
        if hook is not None and self._handles:
            hook.remove()

    # -- signals -----------------------------------------------------------------------------------------------------

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        outer = self._interrupted
        if outer is not None and (frame is None or frame is outer):
            return  # a handler of the program's calls the one before it, which is ours
        # Another frame: a signal of its own, which came while the program's handler of the first one ran.
        self._interrupted = frame
        try:
            # The JVM may have got the same one and had all queries ended before the main thread comes here.
            is_ours = self._handles and (self._had_signal or self._jvm_had_signal or bool(self._active))
            is_second = is_ours and self._had_signal
            if is_ours and not is_second:
                self._had_signal = True
                self._begin()
            if callable(self._before) and not is_second:
                self._before(number, frame)
            elif is_second or not is_ours:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        finally:
            self._interrupted = outer

    def _begin(self) -> None:
        """End all queries, each on a thread; the process does not end before they have."""
        if self._begun.acquire(blocking=False):
            self._ending = tuple(map(_thread, self._active))
            for thread in self._ending:
                thread.start()

    def _jvm_ends(self) -> None:
        """The JVM has got the signal; it goes on to end when this returns."""
        self._jvm_had_signal = True
        self._begin()
        while self._ending is None:  # the handler has just begun
            time.sleep(0.01)
        while waited := [thread for thread in self._ending if thread.is_alive()]:
            waited[0].join()
        threading.main_thread().join(_MAIN_THREAD_S)  # which may stop its session now
        self._jvm_had_signal = False


def _thread(end: End) -> threading.Thread:
    # Not a daemon: the process does not end before the query has.
    return threading.Thread(target=_ended, args=(end,), name="mixedmode-sigterm", daemon=False)


def _ended(end: End) -> None:
    try:
        end()
    except Exception:
        logger.exception("a query could not be ended in good order")


SIGTERM = Sigterm()
