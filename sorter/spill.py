"""The run-private spill folder: made on first use, removed at the end, and after a kill by the next start.

Its name, ``mixedmode-sort-<pid>-<start time>-<uuid>``, tells who made it.  A folder is left over if no process of that
pid and start time lives *and* nobody holds the lock on its ``lock`` file: the lock also protects a folder whose owner
has another pid in another container on the same disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator

from ..errors import SorterError
from ..state.store.folder_owner import is_alive, process_start_time

PREFIX = "mixedmode-sort-"
LOCK_NAME = "lock"


def _lock(path: str) -> int | None:
    """Open and lock a file; None if somebody else holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        # A filesystem without locks: pid and start time have to do.
        return descriptor
    return descriptor


def remove_leftovers(parent: str) -> list[str]:
    """Remove the spill folders of processes that are gone; returns their paths.  Never raises."""
    removed = []
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            pid, _, rest = name.removeprefix(PREFIX).partition("-")
            start = rest.partition("-")[0]
            if not name.startswith(PREFIX) or not (pid.isdigit() and start.isdigit()):
                continue
            if is_alive(int(pid), int(start)):
                continue
            folder = os.path.join(parent, name)
            with contextlib.suppress(OSError):
                descriptor = _lock(os.path.join(folder, LOCK_NAME))
                if descriptor is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(descriptor)
                    removed.append(folder)
    return removed


class SpillFolder:
    """Gives out paths for new files; errors of the disk leave :meth:`guard` as :class:`SorterError`."""

    def __init__(self, parent: str | None = None) -> None:
        self.parent = os.path.abspath(parent or tempfile.gettempdir())
        #: None: nothing was spilled yet, or everything is removed.
        self.path: str | None = None
        self._descriptor: int | None = None
        self._files = 0
        self._pid = os.getpid()
        remove_leftovers(self.parent)

    def new_file(self) -> str:
        """Path of a file that does not exist yet, in a folder that does."""
        with self.guard():
            if self.path is None:
                started = process_start_time(self._pid) or 0
                path = os.path.join(self.parent, f"{PREFIX}{self._pid}-{started}-{uuid.uuid4().hex}")
                os.makedirs(path, mode=0o700)
                self.path = path
                lock = os.path.join(path, LOCK_NAME)
                os.close(os.open(lock, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                self._descriptor = _lock(lock)
        self._files += 1
        return os.path.join(self.path, f"run-{self._files:05d}.arrows")

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Turn an error of the operating system into one that says which option helps."""
        try:
            yield
        except OSError as error:
            raise SorterError(
                f"cannot spill to {self.path or self.parent}: {error}; "
                "free space there, or set sorter.spill-dir to a writable folder on a larger disk",
                code="MIXEDMODE_SPILL_FAILED",
            ) from error

    def remove(self) -> None:
        """Remove the folder with everything in it; may be called again."""
        path, self.path = self.path, None
        if path is not None and os.getpid() == self._pid:  # a forked child must not clean up after its parent
            shutil.rmtree(path, ignore_errors=True)
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
