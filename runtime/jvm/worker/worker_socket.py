"""The socket through which Spark feeds a Python worker.

Spark sends the last of a task's input, and the mark of its end, as small segments of their own, and its side of the
socket has Nagle's algorithm on: such a segment waits until the one before it is acknowledged.  The worker's kernel
puts acknowledgements off by 40 ms while it hopes for data to send them with, and a worker has none before it has read
everything.  So a task with few rows would wait for nothing, in each epoch (measured: 42 ms of an epoch of 400).
With ``spark.python.unix.domain.socket.enabled`` there is no such socket, and nothing to do.
"""

from __future__ import annotations

import os
import socket

_DESCRIPTORS = "/proc/self/fd"


def acknowledge_at_once() -> None:
    """Have this process acknowledge what it receives at once, on all of its TCP connections; only on Linux."""
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    if quick_ack is None or not os.path.isdir(_DESCRIPTORS):
        return
    for descriptor in os.listdir(_DESCRIPTORS):
        try:
            if not os.readlink(f"{_DESCRIPTORS}/{descriptor}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                    connection.setsockopt(socket.IPPROTO_TCP, quick_ack, 1)
        except OSError:
            continue  # closed meanwhile, or not connected: it is only about speed
