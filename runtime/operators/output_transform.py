"""Describes the output transform: stateless operations on a stage's rows, within the stage's own Spark job.

Rows are staged behind it, so it is done once: a function that answers differently the next time cannot change what a
checkpoint holds.  What moves rows between tasks (a join with a static frame that is not broadcast) cannot be part of
the stage's job, whose tasks are its shards: it is a Spark job of its own, in the same epoch, over what the stage hands
on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from .emission_watermark import EMITTED_COLUMN
from .frame_steps import FrameStep, Metrics, behind_steps, metrics_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class TransformedColumn:
    """What an output column is made of."""

    #: Its expression, with ``{0}``, ``{1}``… for the columns below; empty: it is that one column.
    text: str
    #: Places of the stage's columns that it reads.
    sources: tuple[int, ...]


@dataclass(frozen=True)
class OutputBranch:
    """What is done to the rows of one of several stages whose rows together are the output."""

    #: The stage.
    origin: str
    steps: tuple[FrameStep, ...]
    #: The steps, done to an empty frame.
    template: DataFrame


@dataclass(frozen=True)
class OutputTransform:
    """Stateless operations on the rows of the last stage; it cannot leave the driver."""

    steps: tuple[FrameStep, ...]
    #: Columns of the stage's rows, with the marks that operations look at.
    row_schema: StructType
    #: Columns of what is staged.
    schema: StructType
    #: What they are made of; None: it cannot be told.
    columns: tuple[TransformedColumn, ...] | None
    #: The steps, done to an empty frame.
    template: DataFrame
    #: Whether Python code of the user's is among them.
    runs_python: bool
    #: What was called, in order, for explain().
    names: tuple[str, ...]
    #: Whether Spark moves rows between tasks for it, so that it is a Spark job of its own.
    moves_rows: bool = False
    #: Where the rows of several stages are the output: what is done to those of each, in place of ``steps``.
    branches: tuple[OutputBranch, ...] = ()

    @property
    def observed(self) -> tuple[Metrics, ...]:
        """What is computed of the rows on their way, for progress."""
        return metrics_of(self.steps, *(branch.steps for branch in self.branches))

    @property
    def templates(self) -> tuple[DataFrame, ...]:
        """All steps, done to an empty frame of each stage."""
        return tuple(branch.template for branch in self.branches) or (self.template,)

    def over(self, rows: DataFrame) -> DataFrame:
        """The rows behind all steps."""
        return reduce(_behind, self.steps, rows)

    def over_all(self, rows: Mapping[str, DataFrame]) -> DataFrame:
        """What several stages have handed on, behind all steps and united; of one stage as :meth:`over`."""
        if not self.branches:
            (only,) = rows.values()
            return self.over(only)
        ways = [(rows[one.origin].drop(EMITTED_COLUMN), one.steps) for one in self.branches if one.origin in rows]
        frames = behind_steps(ways, EMITTED_COLUMN)
        return reduce(lambda one, other: one.unionByName(other), frames)

    def identities(self, below: Sequence[tuple[str, str]] | None) -> tuple[tuple[str, str], ...] | None:
        """What each output column computes, and the same for people; None: only their names are known.

        Args:
            below: that of the stage's columns.
        """
        if below is None or self.columns is None:
            return None
        found = []
        for column in self.columns:
            if not column.text:
                found.append(below[column.sources[0]])
                continue
            sources = [below[place] for place in column.sources]
            text = column.text
            for place, (identity, said) in enumerate(sources):
                text = text.replace(f"`{{{place}}}`", said or identity)
            found.append((json.dumps([column.text, [identity for identity, _ in sources]]), text))
        return tuple(found)


def _behind(rows: DataFrame, step: FrameStep) -> DataFrame:
    return step(rows) if step.metrics is None else rows.observe(step.metrics.name, *step.metrics.columns)
