"""Remembers who waits for output in Real-Time Mode, and up to where: an epoch ends by the clock, whatever waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...spark_io.spark_kafka import topic_range
from ...spark_io.spark_sources import sources
from ..requests.commit_queue import CommitQueue, CommitRequest

if TYPE_CHECKING:
    from ...spec import JobSpec
    from .realtime_query import Offsets


class OutputWaits:
    """Answers requests as soon as the rows are committed that were in the topic when they were seen.

    Args:
        job: the job.
        requests: of those who wait.
    """

    def __init__(self, job: JobSpec, requests: CommitQueue) -> None:
        self._job, self._requests = job, requests
        #: Where the topic ended when a request was seen.
        self._ends: dict[CommitRequest, Offsets] = {}

    def note(self) -> None:
        """Remember where the topic ends for those who have asked since the driver looked last."""
        new = [one for one in self._requests.pending() if one not in self._ends]
        if new and self._job.live is not None:
            source = next(one for one in sources(self._job.live) if one.is_streaming)
            topic = topic_range(self._job.spark, source.options["subscribe"].strip(), source.options)
            self._ends.update({one: dict(topic.ends) for one in new})

    def grant(self, committed: Offsets) -> None:
        """Answer those whose rows are committed."""
        done = [
            request
            for request, ends in self._ends.items()
            if all(committed.get(partition, 0) >= at for partition, at in ends.items())
        ]
        self._requests.grant(done)
        self._ends = {request: ends for request, ends in self._ends.items() if request not in done}
