"""A change log that is written in segments while its epoch runs, so that little is left to write at the epoch's end.

Each segment is a log file of its own (:mod:`.log`), and holds what has changed since the one before.  It becomes
durable beside what its epoch does next.

Invariants: a segment's name is as unique as the attempt.  Nobody is told of a file before it is durable.  Segments of
an epoch that is not committed are files that nothing names, as any other of such an epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from .files import StateFile
from .log import LogWriter


class SegmentedLog:
    """Takes the changes of one attempt; keys ascend within a segment.

    Args:
        new_log: begins a segment with a name.
        name: beginning of the files' names, as unique as the attempt.
    """

    def __init__(self, new_log: Callable[[str], LogWriter], name: str) -> None:
        self._new_log, self._name = new_log, name
        self._segments = 0
        self._writer = self._next()
        #: What waits for segments that may not be durable yet, in order.
        self._begun: deque[Callable[[], list[StateFile]]] = deque()
        self._durable: list[StateFile] = []
        #: Publishes what is not written at once; None: there was none such.
        self._thread: ThreadPoolExecutor | None = None

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry."""
        self._writer.put(key, value)

    def delete(self, key: bytes) -> None:
        """Add a tombstone."""
        self._writer.delete(key)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Add many entries; a value of None is a tombstone."""
        self._writer.put_many(keys, values)

    def put_arrays(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """The same as Arrow has them; null is a tombstone."""
        self._writer.put_arrays(keys, values)

    def cut(self) -> None:
        """End a segment, and begin with publishing it; what is put from now on is of the next one."""
        writer, self._writer = self._writer, self._next()
        soon = writer.finish_soon()
        if soon is None:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="mixedmode-segments")
            soon = self._thread.submit(writer.finish).result
        self._begun.append(soon)

    def durable(self) -> list[StateFile]:
        """The files of all segments that have ended, in order, as soon as they are durable."""
        while self._begun:
            self._durable += self._begun[0]()
            self._begun.popleft()
        return list(self._durable)

    def finish(self) -> list[StateFile]:
        """End the last segment; the files of all of them, as soon as they are durable."""
        self.cut()
        files = self.durable()
        if self._thread is not None:
            self._thread.shutdown()
        return files

    def _next(self) -> LogWriter:
        name = self._name if not self._segments else f"{self._name}-{self._segments}"
        self._segments += 1
        return self._new_log(name)
