"""The order in which a stream would have brought the rows of a key, as columns of a stage's input.

History rows of files carry two numbers that say where each row stands (:mod:`..spark_io.file_rows`).  Micro-batches
need one, the row's number among those of the tasks that read it, as Spark numbers tasks in the order of partitions;
it is added when an operator prepares its rows.

Invariants:
- Rows that are compared by these columns have equal event times, or the stage has no event time.
- The columns take 16 bytes of a row at most, and never reach an operator's ``run``, the output or the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..catalyst.columns import quoted
from ..spark_io.file_rows import AFTER_FILES, ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN, ROW_BITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Marks rows of a history whose order nobody knows, for rows of all inputs: they are compared as they are.
ARRIVAL_UNKNOWN_COLUMN = "__arrived_unknown"
#: What rows are compared by, in this order; each frame has some of them.
ARRIVAL_COLUMNS = (ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN)
#: The number of a row, which begins with that of its task.
_ROW = "monotonically_increasing_id()"


def arrival_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Those of a frame's columns that say in which order its rows have arrived."""
    return tuple(name for name in ARRIVAL_COLUMNS if name in names)


def with_arrival(frame: DataFrame) -> DataFrame:
    """The rows of a stage's input with all columns that order them; without any if their order is not known."""
    if ARRIVAL_UNKNOWN_COLUMN in frame.columns:
        return frame.drop(ARRIVAL_UNKNOWN_COLUMN, *ARRIVAL_COLUMNS)
    if ARRIVAL_PLACE_COLUMN in frame.columns:
        return frame
    return frame.selectExpr("*", f"{_ROW} AS {ARRIVAL_PLACE_COLUMN}")


def in_one_order(
    histories: Sequence[DataFrame] | None,
    inputs: Sequence[DataFrame],
    lives: Sequence[DataFrame] | None = None,
) -> list[DataFrame]:
    """The inputs of an epoch with columns that say how files have arrived, and that live rows have come behind them.

    Args:
        histories: with the columns of their files; None: nobody knows how their rows have arrived.
        inputs: all inputs as they are: the histories, then rows of live inputs, one micro-batch behind the other.
        lives: the live inputs with the columns of their files; None: their rows come as Spark delivers them.
    """
    if histories is None:
        return [frame.selectExpr("*", f"true AS {ARRIVAL_UNKNOWN_COLUMN}") for frame in inputs]
    of_task = f"{_ROW} & {(1 << ROW_BITS) - 1}L"  # rows of one place are one task's
    place = f"{ARRIVAL_PLACE_COLUMN} | ({of_task}) AS {ARRIVAL_PLACE_COLUMN}"
    found = [
        frame.selectExpr(*[quoted(name) for name in frame.columns if name != ARRIVAL_PLACE_COLUMN], place)
        for frame in (*histories, *(lives or ()))
    ]
    for number, frame in enumerate(inputs[len(found) :]):
        file = f"{AFTER_FILES + number}L AS {ARRIVAL_FILE_COLUMN}"
        found.append(frame.selectExpr("*", file, f"{_ROW} AS {ARRIVAL_PLACE_COLUMN}"))
    return found
