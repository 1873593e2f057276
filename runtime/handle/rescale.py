"""The part of a query's handle that changes its number of shards."""

from __future__ import annotations

from concurrent.futures import TimeoutError as NotInTime

from ...errors import QueryError
from ..driver.rescale_desk import RescaleRequest
from .ended import EndedQuery


class RescaledQuery(EndedQuery):
    """A query whose shards can be dealt anew while it runs."""

    def rescale(
        self, parallelism: int, stage: str | None = None, wait: bool = False, timeout: float | None = None
    ) -> None:
        """Go on with another number of shards, without a stop; returns when a checkpoint holds them.

        Between two epochs the query takes a checkpoint, deals the key groups of its state to the new shards, and takes
        another checkpoint; results are those of a query that was left alone.  A process that dies meanwhile leaves the
        old shards or the new ones.  In a pause it is done at once.  Replicas of the state are built anew by the next
        epochs, from the files that there are.

        A later start goes on with these shards, unless ``pipeline.parallelism`` is set: an option says how many there
        are to be.

        For example:

            query.rescale(16)

        Args:
            parallelism: shards of each stage, from 1 to ``pipeline.max-parallelism``; a power of two spares an exchange
                where Spark aggregates, and between stages that have as many and are in the same key groups.
            stage: the uid of the one stage that it is for, as ``explain()`` shows it; None: all that have not finished.
            wait: in a backlog at batch speed wait for the switch; False: that is an error.
            timeout: seconds to wait; None: for ever.

        Raises:
            ValueError: there cannot be so many shards, or so little time.
            QueryError: it cannot be done now, it was not done in time, or it failed (and the query with it, if its
                checkpoint may not fail).
        """
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout of rescale() must be greater than 0 seconds, got {timeout}")
        if self._runner.is_inside:
            raise QueryError(
                "rescale() in the query's own foreachBatch function would wait for itself",
                code="MIXEDMODE_WAITS_FOR_ITSELF",
            )
        request = RescaleRequest(parallelism, stage, wait)
        self._runner.ask_rescale(request)
        try:
            request.answer.result(timeout)
        except KeyboardInterrupt:
            self._runner.withdraw_rescale(request)
            raise
        except NotInTime:
            if self._runner.withdraw_rescale(request):
                told = "it is withdrawn, and the query goes on with its shards"
            elif request.answer.done():
                return request.answer.result()
            else:
                told = "it is under way, and the query goes on with it"
            raise QueryError(
                f"the {request} was not done within {timeout} s; {told}", code="MIXEDMODE_RESCALE_NOT_DONE"
            ) from None
