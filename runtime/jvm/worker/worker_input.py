"""Tells a task whether Spark has sent rows that it has not read yet.

Whoever asks an iterator of batches for the next one waits until it comes.  A thread that reads ahead is no cure where
rows come one by one: it and the task hand the interpreter to each other several times for each row, and on a busy
machine each of these takes longer than the row.  So the task looks at the stream that its batches are read from.
"""

from __future__ import annotations

import io
import os
import sys

#: What PySpark's functions call the stream that Spark writes to.
_NAME = "infile"


class WorkerInput:
    """The stream that a worker's batches are read from.

    Args:
        stream: of a socket or a pipe; None: nobody knows it.
    """

    def __init__(self, stream: io.BufferedReader | None) -> None:
        self._stream = stream

    @classmethod
    def of_this_task(cls) -> WorkerInput:
        """That of the task that calls, which PySpark hands to no user's function: its own functions have it."""
        frame = sys._getframe()
        while frame is not None:
            stream = frame.f_locals.get(_NAME)
            if isinstance(stream, io.BufferedReader):
                return cls(stream)
            frame = frame.f_back  # type: ignore[assignment]
        return cls(None)

    @property
    def is_known(self) -> bool:
        """Whether :meth:`has_more` can be True."""
        return self._stream is not None

    def has_more(self) -> bool:
        """Whether there is something to read, without waiting; False at its end, or if nobody knows."""
        stream = self._stream
        if stream is None:
            return False
        descriptor = stream.fileno()
        os.set_blocking(descriptor, False)  # a look into an empty buffer reads from the socket
        try:
            return bool(stream.peek(1))
        finally:
            os.set_blocking(descriptor, True)
