"""A join of two streams over keyed state.

The first backlog meets no state: there Spark joins the sides (:mod:`.first_pass`), and only rows that may still meet a
partner become state.  A stream's rows meet those that wait, and each other, in the tasks (:mod:`.run`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ..contract import EpochSpec, FirstPass, ShardContext
from .definition import StreamJoin
from .first_pass import first_pass_of
from .run import JoinRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class JoinOperator(StreamJoin):
    """The keyed stage of a join of two streams."""

    has_first_pass = True

    # -- driver --------------------------------------------------------------------------------------------------------

    def first_pass(
        self, frame: DataFrame, epoch: EpochSpec, spread: Callable[[DataFrame], DataFrame], *, counted: bool
    ) -> FirstPass:
        """Pairs, and the rows of either side that stay."""
        return first_pass_of(self, frame, epoch, spread, counted=counted)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch."""
        JoinRun(self, context).execute(rows)
