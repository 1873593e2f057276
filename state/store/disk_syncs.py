"""Makes local files durable beside whatever else is done, on threads that a process keeps.

File systems with a journal write it once for what comes together (measured with a busy disk: 0.7 ms for a file and its
folder at once, 4 ms one after the other).  To start a thread for each would take longer than the disk does: it waits
for the interpreter, which is busy with what goes on meanwhile.

Invariant: whoever has begun knows nothing of a file's durability before it has waited.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

#: More at once wait for each other.
_MOST_THREADS = 8

_threads: tuple[int, ThreadPoolExecutor] | None = None
#: Threads of a process that this one was forked from; they are not here.
_inherited: list[ThreadPoolExecutor] = []
_making = threading.Lock()


def begin_syncs(*paths: str) -> Callable[[], None]:
    """Begin to make local files, or the names in local folders, durable.

    Returns:
        Waits until all of them are, and raises what has gone wrong.
    """
    begun = [_submitted(path) for path in paths]

    def ended() -> None:
        wait(begun)
        for one in begun:
            one.result()

    return ended


def sync_path(path: str) -> None:
    """Make a local file, or the names in a local folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Let an error of the disk say where: what the system reports about a write names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = path
        raise


def _submitted(path: str) -> Future[None]:
    try:
        return _kept_threads().submit(sync_path, path)
    except RuntimeError:  # the interpreter ends, and begins no thread any more
        done: Future[None] = Future()
        try:
            sync_path(path)
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)
        return done


def _kept_threads() -> ThreadPoolExecutor:
    global _threads
    with _making:
        if _threads is None or _threads[0] != os.getpid():
            if _threads is not None:
                _inherited.append(_threads[1])
            _threads = (os.getpid(), ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="mixedmode-sync"))
        return _threads[1]
