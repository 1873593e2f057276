"""Who prepares which of an epoch's inputs, before all that is prepared is brought together.

A sorted pass has several inputs: a history and what waits at the live source, of each lane.  Spark may get them
together: it computes partial aggregates where it reads, task by task, and a task reads one input.  An engine that can
do more with an input than Spark takes the place of the operator's ``prepare`` for that one, and hands over rows in the
same columns.  Behind the preparation nobody asks who has prepared a row.

Invariant: where several have prepared rows, the operator merges those of a key as it merges the partial aggregates of
different tasks (``KeyedOperator.merges_prepared``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from ..operators.contract import EpochSpec, KeyedOperator


class InputEngine(Protocol):
    """Prepares inputs in place of Spark."""

    def prepared(self, rows: DataFrame, operator: KeyedOperator, epoch: EpochSpec) -> DataFrame | None:
        """What ``operator.prepare`` would make of an input, but for how many rows there are of a key.

        Args:
            rows: the input.
            operator: of the stage that takes it.
            epoch: what the tasks must know.

        Returns:
            Rows in the columns, and the types, of ``operator.prepare``; None: Spark has to prepare it.
        """
        ...


@dataclass(frozen=True)
class PreparedInputs:
    """The inputs of an epoch after some engine has taken at least one of them."""

    #: What engines have prepared.
    taken: tuple[DataFrame, ...]
    #: All others; None: there are none.
    left: DataFrame | None

    @classmethod
    def of(
        cls, inputs: Sequence[DataFrame], operator: KeyedOperator, epoch: EpochSpec, engines: Sequence[InputEngine]
    ) -> PreparedInputs | None:
        """Offer each input to the engines, in their order; None: Spark prepares all of them together.

        Args:
            inputs: the rows, by input.
            operator: of the stage that takes them.
            epoch: what the tasks must know.
            engines: what may prepare them.
        """
        if not engines or not operator.merges_prepared(epoch):
            return None
        taken: list[DataFrame] = []
        left: list[DataFrame] = []
        for rows in inputs:
            offers = (engine.prepared(rows, operator, epoch) for engine in engines)
            found = next((offer for offer in offers if offer is not None), None)
            (left if found is None else taken).append(rows if found is None else found)
        return cls(tuple(taken), united(left)) if taken else None

    def together(self, operator: KeyedOperator, epoch: EpochSpec) -> DataFrame:
        """The prepared rows of all inputs.

        Args:
            operator: prepares what no engine has taken.
            epoch: what the tasks must know.
        """
        others = () if self.left is None else (operator.prepare(self.left, epoch),)
        rows = united((*others, *self.taken))
        assert rows is not None, "some engine has taken an input"
        return rows


def united(frames: Sequence[DataFrame]) -> DataFrame | None:
    """All rows of frames with the same columns; None: there are no frames."""
    return reduce(lambda one, other: one.unionByName(other), frames) if frames else None
