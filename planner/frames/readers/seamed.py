"""Builds history and live input of one source with the seam between them: the base of the readers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from ....errors import OptionError, PlanError
from ...inputs.seam import Seam
from ...options.file import option_text
from ..frame import MixedFrame

#: Makes the rows of a job of the rows of a source.
Parse = Callable[[DataFrame], DataFrame]


def as_they_are(rows: DataFrame) -> DataFrame:
    """The rows of the source are those of the job."""
    return rows


def parsed(parse: Parse, rows: DataFrame) -> DataFrame:
    """The rows of the job; raises PlanError if they are none."""
    made = parse(rows)
    if not isinstance(made, DataFrame):
        raise PlanError(f"parse must return a DataFrame, got {type(made).__name__}")
    return made


def source_options(options: Mapping[str, Any] | None, ours: Collection[str], why: str) -> dict[str, str]:
    """Options of a source as Spark takes them.

    Args:
        options: as the user gave them.
        ours: those that only we set, in lower case.
        why: the end of the message about one of these.

    Raises:
        OptionError: one of them was given.
    """
    given = {name: option_text(value) for name, value in (options or {}).items()}
    for name, value in given.items():
        if name.lower() in ours:
            raise OptionError(f"option {name} = {value!r} {why}")
    return given


def with_seam(frame: MixedFrame, seam: Seam) -> MixedFrame:
    """The rows of both sides, with what lies between them."""
    inputs = frame._inputs
    parts = tuple(replace(part, seam=seam) if part.is_live else part for part in inputs.parts)
    return MixedFrame(replace(inputs, parts=parts), frame._watermark)


def check_fixed(word: str, label: str, is_fixed: bool, position: object) -> None:
    """Refuses a history that reads whatever a table holds at the moment.

    Args:
        word: a position of the table: ``version`` or ``snapshot``.
        label: the table.
        is_fixed: the history names a position.
        position: one that it could name.

    Raises:
        PlanError: it names none.
    """
    if not is_fixed:
        raise PlanError(
            f"the history reads {label} without a {word}, so what it holds changes with every commit; read it with"
            f" option('versionAsOf', {position}), or leave history out",
            code="MIXEDMODE_SEAM_BROKEN",
        )


def history_end(word: str, label: str, held: Collection[int], wanted: int | None) -> int:
    """The position of a table that a given history reaches.

    Args:
        word: a position of the table: ``version`` or ``snapshot``.
        label: the table.
        held: the positions that the history reads.
        wanted: the position that the user names; None: none.

    Raises:
        PlanError: the history reads no position and none is named, or they are several.
    """
    ends = sorted(set(held))
    if not ends and wanted is None:
        raise PlanError(
            f"history is no read of {label}: say up to which {word} of it the history has everything ({word}=…)",
            code="MIXEDMODE_SEAM_BROKEN",
        )
    if len(ends) > 1 or (ends and wanted not in (None, ends[0])):
        also = "" if wanted is None else f", and {word} = {wanted}"
        raise PlanError(
            f"the history reads {word} {' and '.join(map(str, ends))} of {label}{also}: between them rows would be"
            " missing or come twice",
            code="MIXEDMODE_SEAM_BROKEN",
        )
    return ends[0] if wanted is None else wanted


def history_text(word: str, label: str, end: int, history: DataFrame | None, is_read: bool) -> str:
    """The first part of what ``explain()`` says of the seam of a table.

    Args:
        word: a position of the table: ``version`` or ``snapshot``.
        label: the table.
        end: the last position of the history.
        history: what the user gave; None: the table itself.
        is_read: the given history reads the table.
    """
    if history is None:
        return f"by {word}: {label} up to {word} {end} is read as a batch"
    whose = "reads the table up to there" if is_read else "has all up to there, which is the author's statement"
    return f"by {word}: the history {whose}"
