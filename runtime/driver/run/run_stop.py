"""Stops a run from outside of its thread, gives up one that hangs, and tells who is inside of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from ...spec import JobSpec
from ...support.clean_up import take_all
from .hangs import what_hangs
from .run_context import RunContext
from .running_job import RunningJob


class RunStop:
    """Ends a run, whether its thread comes back or not.

    Args:
        job: what runs.
        context: of its run.
    """

    def __init__(self, job: JobSpec, context: RunContext) -> None:
        self._job = job
        self._context = context
        #: The run's thread; None: it does not run.
        self.thread_id: int | None = None
        #: Set once recovery is done.
        self.run: RunningJob | None = None

    def stop(self) -> None:
        """End the run: what the live phase has processed is checkpointed, an unfinished backlog leaves nothing."""
        context = self._context
        context.stopping.set()
        context.wake.set()
        if self.is_inside:
            return  # the step in hand is the caller's own: it is finished, and no other begins
        # Were it to become live meanwhile: each step of that phase looks at ``stopping`` first.
        phase = self._context.published.now.phase
        if phase is None or not phase.finishes_its_epoch:
            stop_live = [] if context.live is None else [context.live.stop]
            # Where Spark itself is gone there is nothing to cancel, and the run finds out by itself.
            take_all(lambda: self._job.spark.sparkContext.cancelJobsWithTag(context.tag), *stop_live)

    def what_hangs(self) -> str:
        """What the run has in hand, in words: the user's function, Spark's tasks, or the phase."""
        return what_hangs(self._job, self._context, self._threads)

    def give_up(self) -> None:
        """Have nobody wait any more for what is in hand: :meth:`stop` was called, and it does not return.

        Nothing of it counts: what has no checkpoint is processed again by the next run.
        """
        context = self._context
        context.lease.give_up()
        context.failed.set()
        context.given_up.set()
        context.wake.set()
        spark = self._job.spark.sparkContext
        take_all(lambda: spark.cancelJobsWithTag(context.tag), lambda: spark.cancelJobsWithTag(context.tag_of_all))

    def leave(self) -> None:
        """Give the location free although the run's thread has not come back, and stop the live source's query."""
        context, why = self._context, "the query was stopped, and given up"
        steps: list[Callable[[], object]] = [
            partial(context.savepoints.close, why),
            partial(context.pause.close, why),
            partial(context.rescales.close, why),
        ]
        if (live := context.live) is not None:
            live.refuse()  # whose thread may be the very one that hangs, so that nobody waits for its end
            threading.Thread(target=partial(take_all, live.stop, live.close), daemon=True).start()
        take_all(*steps, context.lease.release, partial(context.commits.close, why))

    @property
    def is_given_up(self) -> bool:
        """True once :meth:`give_up` was called."""
        return self._context.given_up.is_set()

    @property
    def is_stopping(self) -> bool:
        """True once :meth:`stop` was called."""
        return self._context.stopping.is_set()

    @property
    def is_inside(self) -> bool:
        """True if a step of this job called us (a ``foreachBatch`` function): waiting for the job would be for ever."""
        return threading.get_ident() in self._threads

    @property
    def _threads(self) -> tuple[int | None, ...]:
        """The thread that completes checkpoints, that of the live source's query, and the run's own."""
        live, run = self._context.live, self.run
        return (None if run is None else run.beside.thread_id, None if live is None else live.thread_id, self.thread_id)
