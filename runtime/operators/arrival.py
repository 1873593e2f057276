"""The order in which a stream would have brought the rows of a key, as columns of a stage's input.

History rows of files carry columns that say where each row stands (:mod:`..platform.file_rows`).  The last column, the
row's number within the task that reads it, is added when an operator prepares its rows: micro-batches need no other
one, as Spark numbers tasks in the order of partitions.

Invariants:
- Rows that are compared by these columns have equal event times, or the stage has no event time.
- The columns never reach an operator's ``run``, the output or the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..platform.file_rows import ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN, ARRIVAL_TIME_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The row's number within the task that reads it.
ARRIVAL_ROW_COLUMN = "__arrived_row"
#: Marks rows of a history whose order nobody knows, for rows of all inputs: they are compared as they are.
ARRIVAL_UNKNOWN_COLUMN = "__arrived_unknown"
#: What rows are compared by, in this order; each frame has some of them.
ARRIVAL_COLUMNS = (ARRIVAL_TIME_COLUMN, ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN, ARRIVAL_ROW_COLUMN)
#: Rows of live inputs come after all files.
_AFTER_FILES = 2**63 - 1
_TYPES = {ARRIVAL_TIME_COLUMN: "BIGINT", ARRIVAL_FILE_COLUMN: "STRING", ARRIVAL_PLACE_COLUMN: "BIGINT"}


def arrival_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a frame's columns that say in which order its rows have arrived."""
    return tuple(name for name in ARRIVAL_COLUMNS if name in names)


def with_arrival(frame: DataFrame) -> DataFrame:
    """The rows of a stage's input with all columns that order them; without any if their order is not known."""
    if ARRIVAL_UNKNOWN_COLUMN in frame.columns:
        return frame.drop(ARRIVAL_UNKNOWN_COLUMN, *ARRIVAL_COLUMNS)
    return frame.selectExpr("*", f"monotonically_increasing_id() AS {ARRIVAL_ROW_COLUMN}")


def in_one_order(
    histories: Iterable[DataFrame | None], inputs: Sequence[DataFrame], first_live: int
) -> list[DataFrame]:
    """The inputs of an epoch with columns that say how files have arrived, and that live rows have come behind them.

    Args:
        histories: with the columns of their files; None: nobody knows how their rows have arrived.
        inputs: all inputs as they are: the histories, then rows of live inputs, one micro-batch behind the other.
        first_live: how many of them are histories.
    """
    known = [frame for frame in histories if frame is not None]
    if len(known) < first_live:
        return [frame.selectExpr("*", f"true AS {ARRIVAL_UNKNOWN_COLUMN}") for frame in inputs]
    names = {name for frame in known for name in arrival_columns(frame.columns)}
    found = []
    for place, frame in enumerate([*known, *inputs[first_live:]]):
        values = {ARRIVAL_TIME_COLUMN: f"{_AFTER_FILES - len(inputs) + place}L"}
        missing = [name for name in _TYPES if name in names and name not in frame.columns]
        made = [f"{values.get(name, f'CAST(NULL AS {_TYPES[name]})')} AS {name}" for name in missing]
        found.append(frame.selectExpr("*", *made) if made else frame)
    return found
