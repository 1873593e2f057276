"""Makes what attempts have written durable while their task goes on.

A disk makes files durable together in about the time of one; to an object store each file is a request.  So a task that
works on several shards does not wait for the files of one before it begins with the next.

Invariant: an attempt's report is made when all of its files are durable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from ....state.store.files import StateFile
    from ...connectors.staging import StagedFile

#: Kinds of files of an attempt, each of which has a thread of its own: its state, and its output.
_KINDS = 2

_File = TypeVar("_File", covariant=True)


class Files(Protocol[_File]):
    """Writes files of an attempt."""

    def finish(self) -> Sequence[_File]: ...

    def abort(self) -> None: ...


class Publications:
    """The threads of a task that do it; on leaving they have come to their end, one way or the other.

    Args:
        attempts: how many shards the task works on.
    """

    def __init__(self, attempts: int) -> None:
        self._threads = ThreadPoolExecutor(_KINDS * attempts, thread_name_prefix="mixedmode-publish")

    def __enter__(self) -> Publications:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=True)

    def begin(self, state: Files[StateFile], output: Files[StagedFile] | None, *, here: bool) -> Publication:
        """Begin with an attempt's files.

        Args:
            state: what it has written of the state.
            output: its rows; None: they are not staged.
            here: this thread does all of it, at once.
        """
        return Publication(state, output, _done_here if here else self._threads.submit)


class Publication:
    """The files of one attempt, on their way.

    Args:
        state: what it has written of the state.
        output: its rows; None: they are not staged.
        submit: has a function called.
    """

    def __init__(
        self,
        state: Files[StateFile],
        output: Files[StagedFile] | None,
        submit: Callable[[Callable[[], None]], Future[None]],
    ) -> None:
        self._state, self._output = state, output
        self._files: tuple[StateFile, ...] = ()
        self._staged: tuple[StagedFile, ...] = ()
        self._began = self._ended = time.monotonic()
        work = [self._publish_state] if output is None else [self._publish_state, self._publish_output]
        self._parts = [submit(one) for one in work]

    def _publish_state(self) -> None:
        self._files = tuple(self._state.finish())
        self._ended = time.monotonic()

    def _publish_output(self) -> None:
        assert self._output is not None
        self._staged = tuple(self._output.finish())
        self._ended = time.monotonic()

    def done(self) -> tuple[tuple[StateFile, ...], tuple[StagedFile, ...], int]:
        """Wait; returns the files of the state and of the output, and how many ms it has taken.

        Raises:
            Exception: what has gone wrong; then nothing is left of either.
        """
        wait(self._parts)
        try:
            for part in self._parts:
                part.result()
        except BaseException:
            with ExitStack() as both:
                if self._output is not None:
                    both.callback(self._output.abort)
                both.callback(self._state.abort)
            raise
        return self._files, self._staged, round((self._ended - self._began) * 1000)


def _done_here(work: Callable[[], None]) -> Future[None]:
    """Call a function, as a thread pool would."""
    future: Future[None] = Future()
    try:
        work()
        future.set_result(None)
    except BaseException as error:
        future.set_exception(error)
    return future
