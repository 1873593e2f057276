"""What a task does first in its Python worker, so that neither it nor those after it wait for what nobody needs."""

from __future__ import annotations

from .worker_garbage import spare_what_is_loaded
from .worker_pandas import put_pandas_off
from .worker_socket import acknowledge_at_once


def task_begins() -> None:
    """Called by each task before all else."""
    acknowledge_at_once()
    put_pandas_off()
    spare_what_is_loaded()
