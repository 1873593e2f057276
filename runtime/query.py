"""The handle of a running job; mirrors ``pyspark.sql.streaming.StreamingQuery``."""

from __future__ import annotations

import contextlib
import logging

from ..errors import StopTimeoutError
from .checkpoints.savepoints.destination import savepoint_name
from .driver.requests.remote_requests import Request, Requests
from .driver.run.preflight import check_places
from .driver.run.start_settings import with_settings_of_now
from .handle.monitoring import MonitoredQuery
from .handle.query_run import QueryRun
from .handle.rescale import RescalableQuery
from .handle.stopping import StoppableQuery
from .handle.waiting import AwaitableQuery
from .spec import JobSpec

logger = logging.getLogger(__name__)


def start_query(job: JobSpec) -> MixedQuery:
    """Start a job; returns at once, unless a run elsewhere that may still live has to be waited for.

    Raises:
        OptionError: a folder that it was given cannot be used, or another active query has its name.
        CheckpointError: its checkpoint location, or the savepoint that it begins with, is not for this job, or another
            driver has the location.
    """
    job = with_settings_of_now(job)
    check_places(job)
    query = MixedQuery(job)
    query._start()
    return query


class MixedQuery(RescalableQuery, StoppableQuery, AwaitableQuery, MonitoredQuery):
    """A running job: backlog first, then live.  Returned by ``start()``.

    For example:

        query = frame.writeStream.format("parquet").option("path", "out").start()
        query.wait_for("live", timeout=3600)
        query.stopWithSavepoint("savepoints/7")
    """

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._run = QueryRun(job, self._end_by_signal)
        self._runner = self._run.runner
        self._requests: Requests | None = None
        folder = self._run.requests
        if folder is not None and job.settings.remote_control == "on":
            self._requests = Requests(folder, self._runner.context.run_id, self._do)

    def _start(self) -> None:
        self._run.start(self)
        if self._requests is not None:
            self._requests.watch(self._run.ended)
        elif (folder := self._run.requests) is not None:
            folder.turn_off(self._runner.context.run_id)

    def _do(self, request: Request) -> str | None:
        """Do what somebody asks from outside of this process; for a savepoint the end of a backlog is waited for.

        Returns:
            The path of the savepoint; None: it was not about one.
        """
        if request.action == "pause":
            self.pause()
        elif request.action == "resume":
            self.resume()
        elif request.action == "rescale":
            assert request.parallelism is not None, "the command line asks for a number"
            self.rescale(request.parallelism, request.stage, wait=True)
        elif request.path is None:
            self.stop()
            self._run.check()
        elif request.action == "stop":
            return self.stopWithSavepoint(request.path, drain=request.drain, wait=True)
        else:
            return self.savepoint(request.path, wait=True)
        return None

    def _end_by_signal(self) -> None:
        """End as a process does that is told to: with a savepoint if there is a place and a state for it."""
        folder, label = self._job.settings.savepoint_on_sigterm, self._run.label
        logger.info("query %s ends: SIGTERM", label)
        if folder is not None and self._job.keeps_state:
            try:
                name = savepoint_name(self._job.name or self._run.query_id)
                path = self.stopWithSavepoint(f"{folder.rstrip('/')}/{name}")
                logger.info("query %s has ended with the savepoint %s", label, path)
                return
            except Exception as error:  # whatever it is, a store that refuses for one: the query ends
                logger.warning("query %s ends without a savepoint: %s", label, error)
        with contextlib.suppress(StopTimeoutError):  # it is logged
            self.stop()
