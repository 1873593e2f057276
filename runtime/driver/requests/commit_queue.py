"""Takes the requests of ``processAllAvailable()``: make visible what is processed so far.

They only ask.  The runner does it between two epochs, like everything else of the job, so what fails in it fails the
query by the same rules, and is told by the query.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field

from ...support.request_queue import RequestQueue


@dataclass(eq=False)
class CommitRequest:
    """Somebody waits for the output of all that is processed."""

    #: True when it is visible, False if the run has ended instead.
    answer: Future[bool] = field(default_factory=Future)
    #: A backlog commits nothing before its end.
    wait: bool = True

    def fail(self, reason: str) -> None:
        """The run has ended."""
        self.answer.set_result(False)

    refuse = fail


class CommitQueue(RequestQueue[CommitRequest]):
    """The open requests; thread-safe."""

    def grant(self, requests: Collection[CommitRequest]) -> None:
        """They are done."""
        for request in self.take(lambda request: request in requests):
            request.answer.set_result(True)
