"""What follows the last keyed stage without state: it is done to the stage's rows inside the stage's own Spark job.

Rows are staged behind it, so it is done once: a function that answers differently the next time cannot change what a
checkpoint holds.  What moves rows between tasks (a join with a static frame that is not broadcast) cannot be part of
the stage's job, whose tasks are its shards: it is a Spark job of its own, in the same epoch, over what the stage hands
on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from .steps import Metrics, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class TailColumn:
    """What an output column is made of."""

    #: Its expression, with ``{0}``, ``{1}``… for the columns below; empty: it is that one column.
    text: str
    #: Places of the stage's columns that it reads.
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Tail:
    """Stateless operations on the rows of the last stage; it cannot leave the driver."""

    steps: tuple[Step, ...]
    #: Columns of the stage's rows, with the marks that operations look at.
    row_schema: StructType
    #: Columns of what is staged.
    schema: StructType
    #: What they are made of; None: it cannot be told.
    columns: tuple[TailColumn, ...] | None
    #: The steps, done to an empty frame.
    template: DataFrame
    #: Whether Python code of the user's is among them.
    runs_python: bool
    #: What was called, in order, for explain().
    names: tuple[str, ...]
    #: Whether Spark moves rows between tasks for it, so that it is a Spark job of its own.
    moves_rows: bool = False

    @property
    def observed(self) -> tuple[Metrics, ...]:
        """What is computed of the rows on their way, for progress."""
        return tuple(step.metrics for step in self.steps if step.metrics is not None)

    def over(self, rows: DataFrame) -> DataFrame:
        """The rows behind all steps."""
        return reduce(_behind, self.steps, rows)

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


def _behind(rows: DataFrame, step: Step) -> DataFrame:
    return step(rows) if step.metrics is None else rows.observe(step.metrics.name, *step.metrics.columns)
