"""The declaration of a listed job: address, commit and facts come from its list, by the function's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .job import Job, JobFunction, public_job

#: The lists by the word in ``Job.listed``.
LISTS = {"second": "new_jobs.json", "sql": "sql_jobs.json"}
_ENTRIES: dict[str, tuple[str, dict[str, str]]] = {
    entry["id"]: (name, entry)
    for name, file in LISTS.items()
    for entry in json.loads((Path(__file__).parent / file).read_text())
}


def listed(jobs: list[Job], **declared: Any) -> Callable[[JobFunction], JobFunction]:
    """Add the decorated function to ``jobs`` as the entry of a list that has its name.

    Args:
        jobs: the list of its file.
        declared: the other arguments of ``public_job``.

    Raises:
        KeyError: if no list has such an entry.
    """

    def keep(function: JobFunction) -> JobFunction:
        name, entry = _ENTRIES[function.__name__]  # type: ignore[attr-defined]
        function.__doc__ = f"{entry['input']}; {entry['query']}"
        replaced = [part.strip() for part in entry["replaced"].split(";") if part.strip()]
        return public_job(
            jobs,
            entry["address"],
            commit=entry["commit"],
            replaced=replaced,
            listed=entry.get("list", name),
            **declared,
        )(function)

    return keep


def missing(names: set[str]) -> list[str]:
    """The entries of the lists that none of the given jobs is."""
    return sorted(_ENTRIES.keys() - names)
