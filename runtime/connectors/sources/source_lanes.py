"""Sources of different columns in one job, and in one Structured Streaming query.

A *lane* is what one ``read()`` gives: a history and live inputs with the same columns.  Histories stay apart, so a
stage reads the files of its own lanes only.  Live inputs cannot: one query gives one position in Spark's log and one
micro-batch for all of them, which is what makes the hand-over exact and an epoch one cut.  So the live frame of a job
with several lanes is their union, each lane's columns in a struct of its own that is null in all other rows.  A job
with one lane has no such structs and pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_COLUMN = "__lane_"


@dataclass(frozen=True)
class Lane:
    """Sources with the same columns; at least one."""

    #: Its bounded sources together; None: there are none.
    history: DataFrame | None = None
    #: Its live inputs together; None: there are none.
    live: DataFrame | None = None

    @property
    def frame(self) -> DataFrame:
        """One of them, for questions about columns."""
        frame = self.live if self.history is None else self.history
        assert frame is not None
        return frame


def live_frame(lanes: Sequence[Lane]) -> DataFrame | None:
    """The live inputs of all lanes as one stream; None: there are none."""
    lives = {number: lane.live for number, lane in enumerate(lanes) if lane.live is not None}
    if len(lanes) > 1:
        lives = {number: live.select(F.struct("*").alias(_column(number))) for number, live in lives.items()}
    side_by_side = partial(DataFrame.unionByName, allowMissingColumns=True)
    return reduce(side_by_side, lives.values()) if lives else None


def rows_by_lane(lanes: Sequence[Lane], rows: DataFrame) -> Mapping[int, DataFrame]:
    """Rows of the live frame as those of its lanes.

    Args:
        lanes: all of the job.
        rows: rows with the columns of :func:`live_frame`.
    """
    lives = [number for number, lane in enumerate(lanes) if lane.live is not None]
    if len(lanes) == 1:
        return dict.fromkeys(lives, rows)
    return {number: rows.where(F.col(_column(number)).isNotNull()).select(f"{_column(number)}.*") for number in lives}


def _column(number: int) -> str:
    return f"{_COLUMN}{number}"
