"""Identifies the job of a checkpoint location or savepoint, and says in words how two jobs differ."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..support.ids import JobId

#: PySpark's way to print a column, in which an operator describes its windows.
_COLUMN = re.compile(r"^Column<'(.*)'>$", re.DOTALL)
#: The name of a processor's class may change, and how many rows go out.
_NOT_THE_IDENTITY = {"processor", "first rows"}
#: Version of ``job.json`` that this code writes; version 1 knew one stage, ``operator``.
IDENTITY_VERSION = 2
#: What a change of is judged by what the state records: aggregates are told by what they compute, and what a join may
#: become by what is known of the rows that wait.
FOUND_BY_STATE = ("aggregates", "how", "event times", "rows wait", "condition")


@dataclass(frozen=True)
class JobIdentity:
    """What makes a checkpoint location belong to one job."""

    job_id: JobId
    #: What the operators of its stages say of themselves, in topological order.
    stages: tuple[Mapping[str, object], ...]
    max_parallelism: int
    #: Its queryName when the location was claimed; None: it had none, or that was not recorded.
    name: str | None = None

    def of_stage(self, uid: str) -> Mapping[str, object]:
        """What a stage's operator says of itself; KeyError: there is no such stage."""
        return {str(stage.get("uid")): stage for stage in self.stages}[uid]

    def differences(self, stages: Sequence[Mapping[str, object]], apart_from: Collection[str] = ()) -> list[str]:
        """What tells this job from one with other stages, in words; nothing for the same job.

        Args:
            stages: what the operators of the other job's stages say of themselves.
            apart_from: names of what is not looked at.
        """
        if len(self.stages) != len(stages):
            return [f"it has {len(self.stages)} keyed stages, this job {len(stages)}"]
        return [
            difference
            for mine, theirs in zip(self.stages, stages, strict=True)
            for difference in stage_differences(mine, theirs, apart_from)
        ]

    def to_json(self) -> dict[str, Any]:
        """What ``job.json`` says."""
        return {
            "format_version": IDENTITY_VERSION,
            "job_id": self.job_id,
            "stages": [dict(stage) for stage in self.stages],
            "max_parallelism": self.max_parallelism,
            "name": self.name,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> JobIdentity:
        """What a ``job.json`` of any version says; KeyError and TypeError: it does not say it."""
        stages = (body["operator"],) if body["format_version"] == 1 else tuple(body["stages"])
        return cls(body["job_id"], stages, body["max_parallelism"], body.get("name"))

    @property
    def query_id(self) -> str:
        """See :func:`query_id`."""
        return query_id(self.job_id)

    def __str__(self) -> str:
        """The job by what its author called it: the name of its query, its operator and keys."""
        stages = [
            " by ".join(part for part in (str(stage.get("operator", "")), spoken(stage.get("key"))) if part)
            for stage in self.stages
        ]
        parts = (f"query {self.name!r}" if self.name else "", ", then ".join(filter(None, stages)))
        return ", ".join(part for part in parts if part)


def stage_differences(
    mine: Mapping[str, object], theirs: Mapping[str, object], apart_from: Collection[str] = ()
) -> list[str]:
    """What tells a stage from another one, in words."""
    names = sorted((mine.keys() | theirs.keys()) - _NOT_THE_IDENTITY - set(apart_from))
    different = [name for name in names if mine.get(name) != theirs.get(name)]
    if "operator" in different:  # what only one of the two kinds has says nothing more
        different = [name for name in different if name in mine and name in theirs]
    return [_difference(name, mine.get(name), theirs.get(name)) for name in different]


def query_id(job_id: JobId) -> str:
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
