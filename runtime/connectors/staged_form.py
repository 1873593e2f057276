"""Describes staged output: its columns, its layout and its place.

It is part of the transaction, so that a job that is started again with other columns or another sink, before the
output was shown, can show it as what it was.  A column is what it computes, where that is known (aggregates), or else
its name, place and type (what a processor yields).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointMismatchError
from ..support.frozen import Frozen

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StagedColumn(Frozen):
    """One column."""

    name: str
    #: Spark's type, as JSON values.
    type: Any
    #: What it computes; None: nothing but its name says.
    identity: str | None = None
    #: The same for people.
    text: str = ""

    def __str__(self) -> str:
        kind = self.type if isinstance(self.type, str) else self.type.get("type", "?")
        return f"{self.name} ({self.text})" if self.text else f"{self.name} {kind}"


class StagedForm(Frozen):
    """How the files of a transaction are to be read."""

    columns: tuple[StagedColumn, ...]
    #: Columns by which the files are laid out.
    partition_by: tuple[str, ...] = ()
    #: Folder of the output, below which they are staged; None: they are in the checkpoint location.
    path: str | None = None


def columns_of(schema: StructType, identities: Sequence[tuple[str, str]] | None) -> tuple[StagedColumn, ...]:
    """The columns of an output; ``identities``: what each computes, and the same for people."""
    known: Sequence[tuple[str | None, str]] = identities or [(None, "")] * len(schema.fields)
    return tuple(
        StagedColumn(name=field.name, type=field.dataType.jsonValue(), identity=identity, text=text)
        for field, (identity, text) in zip(schema.fields, known, strict=True)
    )


def sources_of(wanted: Sequence[StagedColumn], staged: Sequence[StagedColumn], where: str) -> list[int]:
    """For each wanted column the staged one that it is; ``where`` names what is staged in errors.

    Staged columns that nobody wants any more are left out.

    Raises:
        CheckpointMismatchError: a wanted column was not staged, or is another one under an old name.  It would have to
            be null, or wrong.
    """
    if all(column.identity is not None for column in (*wanted, *staged)):
        sources = _by_identity(wanted, staged)
    else:
        sources = _by_name(wanted, staged)
    missing = [column for column, source in zip(wanted, sources, strict=True) if source is None]
    if not missing:
        return [source for source in sources if source is not None]
    names = {column.name: column for column in staged}
    column = next((one for one in missing if one.name in names), missing[0])
    if column.name in names:
        problem = f"column {column.name!r} is {column} in this job, and was {names[column.name]} then"
    else:
        problem = f"this job's column {column} is none of them"
    raise CheckpointMismatchError(
        f"{where} was not shown yet, and its columns are {', '.join(map(str, staged))}: {problem}. Start the job once"
        " with the columns of then (an alias may be another one, a column may be left out), and change them after that"
        " [upgrade:U6]"
    )


def _by_identity(wanted: Sequence[StagedColumn], staged: Sequence[StagedColumn]) -> list[int | None]:
    """By what they compute; of several alike the first is the first."""
    left = list(range(len(staged)))
    sources: list[int | None] = []
    for column in wanted:
        same = [at for at in left if staged[at].identity == column.identity and staged[at].type == column.type]
        sources.append(same[0] if same else None)
        left = [at for at in left if at not in same[:1]]
    return sources


def _by_name(wanted: Sequence[StagedColumn], staged: Sequence[StagedColumn]) -> list[int | None]:
    """By name; or by place where nothing but names has changed, and none of them has moved."""
    places = {column.name: at for at, column in enumerate(staged)}
    found = [places.get(column.name) for column in wanted]
    if None in found and [column.type for column in wanted] == [column.type for column in staged]:
        in_place = [at is None or at == place for place, at in enumerate(found)]
        if all(in_place):
            return list(range(len(wanted)))
    return [
        at if at is not None and staged[at].type == column.type else None
        for at, column in zip(found, wanted, strict=True)
    ]
