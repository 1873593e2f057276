"""The part of a query's handle that waits for what the query does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, get_args

from ...errors import QueryError
from ..spec import PhaseKind
from .query_run import QueryRun
from .timeouts import timeout_s

if TYPE_CHECKING:
    from rich.console import Console

#: How long ``awaitTermination`` waits at a time.
_LONGEST_WAIT_S = 1.0


class AwaitableQuery:
    """A query that others can wait for, and watch."""

    _run: QueryRun

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Waits until the query ends.

            query.awaitTermination()

        Args:
            timeout: seconds to wait; None: for ever.

        Returns:
            With a timeout, whether the query has ended; without, None (as in PySpark).

        Raises:
            QueryError: the query failed.
            OptionError: the timeout is not a number of seconds greater than 0.
        """
        timeout = timeout_s("awaitTermination", timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        ended = self._run.ended.is_set()
        while not ended and (deadline is None or time.monotonic() < deadline):
            # Python handles signals in the main thread, which one that another thread has got does not wake.
            wait_s = _LONGEST_WAIT_S if deadline is None else min(_LONGEST_WAIT_S, deadline - time.monotonic())
            ended = self._run.ended.wait(max(wait_s, 0))
        if ended:
            self._run.check()
        return None if timeout is None else ended

    def watch(
        self, until: PhaseKind | None = None, timeout: float | None = None, console: Console | None = None
    ) -> bool:
        """Shows the query until it ends: a bar of its backlog, then a table of its stream.

            query.watch(until="live")

        A terminal and a notebook cell are redrawn.  Elsewhere a line is printed every few seconds, and for each event.
        ``mixedmode watch LOCATION`` shows the same from another process.  Ctrl-C ends the watching
        (``KeyboardInterrupt``).  In a notebook the query continues.  In a script PySpark's own handler cancels the
        running Spark jobs before, which ends the query if it had any.

        Args:
            until: a phase ("live", …) at whose beginning to return; None: watch until the query has ended.
            timeout: seconds to watch; None: for ever.
            console: where to show it; None: standard output.

        Returns:
            Whether the query has ended, or reached that phase.

        Raises:
            QueryError: the query failed.
            ValueError: no query has such a phase, or (OptionError) the timeout is not a number of seconds, at least 0.
        """
        if until is not None:
            _check_phase("watch", until)
        timeout = timeout_s("watch", timeout, may_be_zero=True)
        from rich.console import Console

        from ..metrics.watch.displays import display_for
        from ..metrics.watch.feed import Feed
        from ..metrics.watch.watcher import Watcher, watch

        feed = Feed(self._run.id, lambda: self._run.recorded(self._run.id))
        try:
            watcher = Watcher(feed, display_for(console or Console(highlight=False)))
            done = watch(
                watcher, lambda: self._run.is_active, until=until, timeout_s=timeout, wait=self._run.ended.wait
            )
        finally:
            feed.close()
        if not self._run.is_active:
            self._run.check()
        return done

    def processAllAvailable(self) -> None:
        """Waits until everything that the sources hold now is processed and visible in the sink (for tests).

            query.processAllAvailable()

        If the checkpoint fails within ``execution.checkpointing.tolerable-failed-checkpoints``, it waits for the next
        one.

        Raises:
            QueryError: the query failed, or is paused.
        """
        self._run.check_outside("processAllAvailable()")
        while self._run.is_active:
            if self._run.runner.context.pause.is_wanted:
                raise QueryError("processAllAvailable() would wait for resume(): the query is paused")
            phase, live = self._run.runner.context.published.now.phase, self._run.runner.context.live
            is_live = phase is not None and phase.finishes_its_epoch
            # An epoch in Real-Time Mode that begins now holds all that is there, and its commit answers.
            in_real_time = phase is not None and phase.real_time_ms is not None
            source = live.query if live is not None and is_live and not in_real_time else None
            try:
                if in_real_time or (source is not None and source.isActive):
                    if source is not None:
                        source.processAllAvailable()
                    if not self._run.runner.requests.commit().result():
                        self._run.ended.wait()  # it has failed, or somebody stops it, which takes a checkpoint
                    break
            except Exception:
                self._run.ended.wait()  # the query is failing: its own error says more
                break
            self._run.ended.wait(0.05)
        if not self._run.is_active:
            self._run.check()

    def wait_for(self, phase: str, timeout: float | None) -> bool:
        """Waits until the query has reached a phase or has ended; returns True if it reached the phase.

            query.wait_for("live", timeout=60)

        Args:
            phase: its name, as :meth:`explain` prints it ("backlog", "switch", "live", …).
            timeout: seconds to wait; None: for ever.

        Raises:
            ValueError: no query has such a phase, or (OptionError) the timeout is not a number of seconds, at least 0.
        """
        limit_s = timeout_s("wait_for", timeout, may_be_zero=True)
        if phase == "recovery":
            return True  # each run begins in it
        _check_phase("wait_for", phase)
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while deadline is None or time.monotonic() < deadline:
            if phase in self._run.history.phases:
                return True
            if self._run.ended.wait(0.02):
                break
        return phase in self._run.history.phases


def _check_phase(method: str, phase: str) -> None:
    if phase not in get_args(PhaseKind):
        names = ", ".join(("recovery", *get_args(PhaseKind)))
        raise ValueError(f"phase of {method}() is {phase!r}; the phases are {names}")
