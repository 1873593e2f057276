"""The part of a query's handle that changes its number of shards."""

from __future__ import annotations

from concurrent.futures import TimeoutError as NotInTime

from ...errors import QueryError
from ..driver.requests.rescale_queue import RescaleRequest
from .query_run import QueryRun
from .timeouts import timeout_s


class RescalableQuery:
    """A query whose number of shards can change while it runs."""

    _run: QueryRun

    def rescale(
        self, parallelism: int, stage: str | None = None, wait: bool = False, timeout: float | None = None
    ) -> None:
        """Changes the number of shards while the query runs; returns when a checkpoint holds the new shards.

            query.rescale(16)

        Between two epochs the query takes a checkpoint, assigns the key groups to the new shards, and takes another
        checkpoint.  The results are those of a query that was left alone.  If the process dies meanwhile, the next
        start has the old shards or the new ones.  In a pause it happens at once.  The next epochs build the working
        copies of the new shards from the existing files.

        A later start keeps the new number, unless ``pipeline.parallelism`` is set: then that option counts.

        Args:
            parallelism: the number of shards of each stage, from 1 to ``pipeline.max-parallelism``.  Powers of two
                avoid
                shuffles where Spark aggregates, and between stages that have as many shards and the same key groups.
            stage: the uid of one stage, as ``explain()`` shows it; None: all stages that have not finished.
            wait: in a backlog at batch speed, wait for the switch; False: raise an error.
            timeout: seconds to wait; None: for ever.

        Raises:
            OptionError: the number of shards or the timeout is not allowed.
            QueryError: it cannot be done now, was not done in time, or failed (and the query with it, if its checkpoint
                may
                not fail).
        """
        timeout = timeout_s("rescale", timeout)
        self._run.check_outside("rescale()")
        request = RescaleRequest(parallelism, stage, wait)
        self._run.runner.requests.rescale(request)
        try:
            request.answer.result(timeout)
        except KeyboardInterrupt:
            self._run.runner.requests.withdraw_rescale(request)
            raise
        except NotInTime:
            if self._run.runner.requests.withdraw_rescale(request):
                outcome = "it is withdrawn, and the query goes on with its shards"
            elif request.answer.done():
                return request.answer.result()
            else:
                outcome = "it is under way, and the query goes on with it"
            raise QueryError(
                f"the {request} was not done within {timeout} s; {outcome}", code="MIXEDMODE_RESCALE_NOT_DONE"
            ) from None
