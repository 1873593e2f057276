"""Tells a task whether Spark has sent rows that it has not read yet, and has none wait for an acknowledgement.

Whoever asks an iterator of batches for the next one waits until it comes.  A thread that reads ahead is no cure where
rows come one by one: it and the task hand the interpreter to each other several times for each row, and on a busy
machine each of these takes longer than the row.  So the task looks at the stream that its batches are read from.
"""

from __future__ import annotations

import io
import os
import select
import socket
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
        self._tcp = None if stream is None else _tcp_socket(stream.fileno())

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

    def acknowledge(self) -> None:
        """Have the kernel say at once that what was read has arrived; to be called before each wait.

        Spark sends a batch in small pieces, and its kernel keeps the next piece until the one before is acknowledged
        (Nagle's algorithm).  A kernel that delays that, for 40 ms, has rows wait as long.  What is set is forgotten.
        """
        if self._tcp is not None:
            self._tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

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

    def wait(self, seconds: float) -> bool:
        """Wait until there is something to read, but not longer than that; whether there is, or nobody knows.

        Args:
            seconds: how long.
        """
        if self._stream is None or self.has_more():
            return True
        poll = select.poll()
        poll.register(self._stream.fileno(), select.POLLIN)
        return bool(poll.poll(round(seconds * 1000)))


def _tcp_socket(descriptor: int) -> socket.socket | None:
    """The socket, if it is one of TCP on a system whose delays can be turned off."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return None
    copy = os.dup(descriptor)
    try:
        found = socket.socket(fileno=copy)
    except OSError:  # a pipe
        os.close(copy)
        return None
    if found.family in (socket.AF_INET, socket.AF_INET6):
        return found
    found.close()
    return None
