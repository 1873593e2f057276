"""Builds history and live input of one source with the seam between them: the base of the readers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from ....errors import OptionError, PlanError
from ...inputs.seam import Seam
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
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()
    }
    for name, value in given.items():
        if name.lower() in ours:
            raise OptionError(f"option {name} = {value!r} {why}")
    return given


def with_seam(frame: MixedFrame, seam: Seam) -> MixedFrame:
    """The rows of both sides, with what lies between them."""
    inputs = frame._inputs
    parts = tuple(replace(part, seam=seam) if part.is_live else part for part in inputs.parts)
    return MixedFrame(replace(inputs, parts=parts), frame._watermark)
