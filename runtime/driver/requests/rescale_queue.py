"""Takes what user threads ask for in ``query.rescale()``; the runner serves it between two epochs.

Invariant: every request is answered, at the latest when the run ends.  One that nobody has begun with can be withdrawn.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NoReturn

from ....errors import QueryError
from ...support.request_queue import RequestQueue


@dataclass(eq=False)
class RescaleRequest:
    """Another number of shards that somebody asked for."""

    parallelism: int
    #: Uid of the stage; None: all that have not finished.
    stage: str | None = None
    #: In a backlog at batch speed: wait for its end, instead of being refused.
    wait: bool = False
    #: Answered when a checkpoint holds it.
    answer: Future[None] = field(default_factory=Future)

    def __str__(self) -> str:
        return f"rescale to {self.parallelism} shards" + ("" if self.stage is None else f" of stage {self.stage!r}")

    def refuse(self, reason: str) -> NoReturn:
        """Raise QueryError: it cannot be taken."""
        raise QueryError(f"no {self} can be done: {reason}", code="MIXEDMODE_RESCALE_NOT_DONE")

    def fail(self, reason: str) -> None:
        """Answer that it will not be done."""
        self.answer.set_exception(QueryError(f"the {self} was not done: {reason}", code="MIXEDMODE_RESCALE_NOT_DONE"))


class RescaleQueue(RequestQueue[RescaleRequest]):
    """The requests, in order; thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        #: The run has begun with these.
        self._begun: list[RescaleRequest] = []

    # -- the run's side ----------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True if nothing is open, and nothing is begun."""
        return not self._open and not self._begun

    def begin(self) -> list[RescaleRequest]:
        """The requests that are to be done; nobody can withdraw them from here on."""
        with self._lock:
            self._begun, self._open = [*self._begun, *self._open], []
            return list(self._begun)

    def grant(self) -> None:
        """All that was begun with is done, for good."""
        with self._lock:
            done, self._begun = self._begun, []
        for request in done:
            request.answer.set_result(None)

    def refuse(self, request: RescaleRequest, reason: str) -> None:
        """One of those that were begun with cannot be done."""
        with self._lock:
            self._begun.remove(request)
        request.fail(reason)

    def refuse_begun(self, reason: str) -> None:
        """Nothing that was begun with can be done."""
        with self._lock:
            refused, self._begun = self._begun, []
        for request in refused:
            request.fail(reason)

    def close(self, reason: str) -> None:
        super().close(reason)
        self.refuse_begun(reason)
