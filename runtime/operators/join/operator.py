"""A join of two streams over keyed state.

The first backlog meets no state: there Spark joins the sides (:mod:`.first_pass`), and only rows that may still meet a
partner become state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..contract import EpochSpec, FirstPass
from .definition import StreamJoin
from .first_pass import first_pass_of

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
