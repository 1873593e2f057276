"""Lets a program that starts a job be asked for the job's plan instead: ``mixedmode plan job.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...runtime.spec import JobSpec
from .plan import ExecutionPlan


class DryRunStop(BaseException):
    """Raised by ``start()`` in a dry run, with plan and job; no Exception: no program takes it for a failure."""

    def __init__(self, plan: ExecutionPlan, job: JobSpec) -> None:
        super().__init__("planned, not started")
        self.plan = plan
        self.job = job


#: How many dry runs this process is in.
_depth = 0


@contextmanager
def without_starts() -> Iterator[None]:
    """While inside, no job starts."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def is_dry() -> bool:
    """Whether jobs are planned here, and none starts."""
    return _depth > 0


def stop_if_dry(plan: ExecutionPlan, job: JobSpec) -> None:
    """Raise :class:`DryRunStop` in a dry run."""
    if is_dry():
        raise DryRunStop(plan, job)
