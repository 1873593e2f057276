"""Prepares a Python worker at the start of a task, so that no task waits for what nobody needs.

PyArrow's import of pandas, a third of a second of a core with the first value that it is given, is not among that.  Its
C++ looks for pandas once: where it found none, it would take ``NA`` and ``NaT`` for unknown objects and cut nanoseconds
off, in the functions of others, too, for as long as the worker lives.
"""

from __future__ import annotations

from .worker_garbage import spare_what_is_loaded
from .worker_socket import acknowledge_at_once


def task_begins() -> None:
    """Called by each task before all else."""
    acknowledge_at_once()
    spare_what_is_loaded()
