"""Makes what attempts have written durable while their task goes on.

A disk makes files durable together in about the time of one; to an object store each file is a request.  So a task that
works on several shards does not wait for the files of one before it begins with the next.  Small files on a local disk
are written at once, by the task's own thread: threads for them would wait for the interpreter, and so would the task.

Invariant: an attempt's report is made when all of its files are durable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from ....state.store.files import StateFile
    from ...connectors.staging import StagedFile

#: Kinds of files of an attempt, each of which has a thread of its own: its state, and its output.
_KINDS = 2

_File = TypeVar("_File", covariant=True)


class Files(Protocol[_File]):
    """Writes files of an attempt."""

    def finish(self) -> Sequence[_File]: ...

    def finish_soon(self) -> Callable[[], Sequence[_File]] | None:
        """Do what is done at once; returns what waits for the rest, None if :meth:`finish` has all of it to do."""

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

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=True)

    def begin(self, state: Files[StateFile], output: Files[StagedFile] | None, *, here: bool) -> Publication:
        """Begin with an attempt's files.

        Args:
            state: what it has written of the state.
            output: its rows; None: they are not staged.
            here: this thread does all of it, at once.
        """
        return Publication(state, output, None if here else self._threads.submit)


#: Waits for some files; returns them, and how many seconds they have taken.
_Part = Callable[[], "tuple[tuple[_File, ...], float]"]
#: Has a function called in a thread; None: this one is to call it.
_Submit = Callable[[Callable[[], Any]], "Future[Any]"] | None


class Publication:
    """The files of one attempt, on their way.

    Args:
        state: what it has written of the state.
        output: its rows; None: they are not staged.
        submit: has a function called in another thread; None: this one does all of it, at once.
    """

    def __init__(self, state: Files[StateFile], output: Files[StagedFile] | None, submit: _Submit) -> None:
        self._state, self._output = state, output
        self._files: _Part[StateFile] = _begun(state, submit)
        self._staged: _Part[StagedFile] | None = None if output is None else _begun(output, submit)

    def done(self) -> tuple[tuple[StateFile, ...], tuple[StagedFile, ...], int]:
        """Wait; returns the files of the state and of the output, and how many ms it has taken.

        Raises:
            Exception: what has gone wrong; then nothing is left of either.
        """
        failures: list[BaseException] = []
        files, files_s = _waited(self._files, failures)
        staged, staged_s = ((), 0.0) if self._staged is None else _waited(self._staged, failures)
        if failures:
            with ExitStack() as both:
                if self._output is not None:
                    both.callback(self._output.abort)
                both.callback(self._state.abort)
            raise failures[0]
        return files, staged, round(max(files_s, staged_s) * 1000)


def _begun(files: Files[_File], submit: _Submit) -> _Part[_File]:
    """Begin with some files; what goes wrong now is raised where they are waited for."""
    began = time.monotonic()

    def whole() -> tuple[tuple[_File, ...], float]:
        return tuple(files.finish()), time.monotonic() - began

    if submit is None:
        return _called(whole)
    begun = _called(files.finish_soon)
    try:
        rest = begun()
    except BaseException:
        return begun
    if rest is None:
        return submit(whole).result
    at_once_s = time.monotonic() - began

    def waited() -> tuple[tuple[_File, ...], float]:
        since = time.monotonic()
        return tuple(rest()), at_once_s + time.monotonic() - since

    return waited


def _called(work: Callable[[], Any]) -> Callable[[], Any]:
    """Call a function now; returns what gives its result, or raises its error."""
    future: Future[Any] = Future()
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    return future.result


def _waited(part: _Part[_File], failures: list[BaseException]) -> tuple[tuple[_File, ...], float]:
    try:
        return part()
    except BaseException as error:
        failures.append(error)
        return (), 0.0
