"""Which job a checkpoint location, or a savepoint, belongs to, and what tells it from another one, in words."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass

#: PySpark's way to print a column, in which an operator describes its windows.
_COLUMN = re.compile(r"^Column<'(.*)'>$", re.DOTALL)
#: The name of a processor's class may change.
_NOT_THE_IDENTITY = {"processor"}
#: Names of aggregates: which of them is which is told by what they compute, as their state records it.
ALIASES = ("aggregates",)


@dataclass(frozen=True)
class JobIdentity:
    """What makes a checkpoint location belong to one job."""

    job_id: str
    #: What the job's operator says of itself.
    operator: dict[str, object]
    max_parallelism: int
    #: Its queryName when the location was claimed; None: it had none, or that was not recorded.
    name: str | None = None

    def differences(self, described: dict[str, object], apart_from: Collection[str] = ()) -> list[str]:
        """What tells this job from one with another operator, in words; nothing for the same job.

        Args:
            described: what the other operator says of itself.
            apart_from: names of what is not looked at.
        """
        names = sorted((self.operator.keys() | described.keys()) - _NOT_THE_IDENTITY - set(apart_from))
        different = [name for name in names if self.operator.get(name) != described.get(name)]
        if "operator" in different:  # what only one of the two kinds has says nothing more
            different = [name for name in different if name in self.operator and name in described]
        return [_difference(name, self.operator.get(name), described.get(name)) for name in different]

    @property
    def query_id(self) -> str:
        """See :func:`query_id`."""
        return query_id(self.job_id)

    def __str__(self) -> str:
        """The job by what its author called it: the name of its query, its operator and keys."""
        parts = [str(self.operator.get("operator", "")), spoken(self.operator.get("key"))]
        by = " by ".join(part for part in parts if part)
        return ", ".join(part for part in (f"query {self.name!r}" if self.name else "", by) if part)


def query_id(job_id: str) -> str:
    """The id of the job's query as PySpark writes one: a UUID, of an id that is none always the same."""
    try:
        return str(uuid.UUID(job_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, job_id))


def _difference(name: str, mine: object, theirs: object) -> str:
    verb = "are" if name.endswith("s") else "is"
    if not theirs:
        return f"its {name} {verb} {spoken(mine)}, this job has none"
    if not mine:
        return f"it has no {name}, this job's {verb} {spoken(theirs)}"
    return f"its {name} {verb} {spoken(mine)}, this job's {verb} {spoken(theirs)}"


def spoken(value: object) -> str:
    """What an operator says of itself, as people write it."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(spoken, value))
    return "" if value is None else _COLUMN.sub(r"\1", str(value))
