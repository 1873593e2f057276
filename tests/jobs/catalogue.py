"""All jobs, found in the files of ``public/``."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from . import public
from .job import Job


def _modules() -> list[str]:
    return sorted(found.name for found in pkgutil.iter_modules(public.__path__))


#: The title of each file, from its docstring, and its jobs.
GROUPS: dict[str, list[Job]] = {}
for _name in _modules():
    _module = import_module(f"{public.__name__}.{_name}")
    GROUPS.setdefault((_module.__doc__ or _name).strip().splitlines()[0].rstrip("."), []).extend(_module.JOBS)
JOBS = [job for jobs in GROUPS.values() for job in jobs]
BY_NAME = {job.name: job for job in JOBS}
