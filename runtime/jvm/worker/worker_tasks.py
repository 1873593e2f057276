"""Prepares a Python worker at the start of a task, so that no task waits for what nobody needs.

PyArrow's import of pandas, a third of a second of a core with the first value that it is given, is not among that.  Its
C++ looks for pandas once: where it found none, it would take ``NA`` and ``NaT`` for unknown objects and cut nanoseconds
off, in the functions of others, too, for as long as the worker lives.
"""

from __future__ import annotations

import gc
import os
import socket

from pyspark import TaskContext

_DESCRIPTORS = "/proc/self/fd"
#: The first task of a process freezes what Spark's worker has loaded, the second what the first has loaded.  No more
#: than that, as what is frozen and becomes garbage later stays.
_TIMES = 2

_frozen = 0


def task_begins() -> None:
    """Called by each task before all else."""
    acknowledge_at_once()
    spare_what_is_loaded()


def task_context() -> TaskContext:
    """Spark's context of the task that this code runs in."""
    context = TaskContext.get()
    assert context is not None, "it runs only inside a Spark task"
    return context


def acknowledge_at_once() -> None:
    """Have this process acknowledge what it receives at once, on all of its TCP connections; only on Linux.

    Spark sends the last of a task's input, and the mark of its end, as small segments of their own, and its side of the
    socket has Nagle's algorithm on: such a segment waits until the one before it is acknowledged.  The worker's kernel
    puts acknowledgements off by 40 ms while it hopes for data to send them with, and a worker has none before it has
    read everything.  So a task with few rows would wait for nothing, in each epoch (measured: 42 ms of an epoch of
    400).  With ``spark.python.unix.domain.socket.enabled`` there is no such socket, and nothing to do.
    """
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


def spare_what_is_loaded() -> None:
    """Have this process's garbage collector leave alone what is there now.

    PySpark has a worker collect garbage of all generations after each task.  Modules and what they hold are some 80,000
    objects and never garbage, but they are looked at each time: 35 ms of a core after every task, as much as a task of
    a small epoch computes itself, and the next one waits for it.  What is frozen is not looked at.
    """
    global _frozen
    if _frozen < _TIMES:
        _frozen += 1
        gc.freeze()
