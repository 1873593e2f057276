"""All shapes, which parts are not there yet, and how many jobs move by the one line."""

from __future__ import annotations

from . import (
    after_the_stage,
    aggregates,
    complete_mode,
    dedup,
    joins,
    pandas_state,
    processors,
    two_stages,
    views,
    windows,
)
from .shape import Shape

#: Parts that do not exist: a shape that needs one is refused, by a sentence.  Whoever builds a part deletes its word.
NOT_YET = {
    "complete to a format",
    "pipeline model",
    "union with a stage's output",
    "views",
}
#: For each part, what a job that needs it does instead while it is not there.
INSTEAD = {
    "alias behind a join": "`select(…)` of the columns by their aliases, between the join and `groupBy`",
    "aggregate in select": "`agg(…)` instead of `select(…)`",
    "complete": "`update` instead of `complete`; sort and limit in what reads the table",
    "complete to a format": "`foreachBatch`, and write the format in it",
    "dedup": "`groupBy` the columns and `agg(first(…))`",
    "frame methods": "the method on the frames that `read()` is given",
    "joins of streams": "two queries on the same output, and a join of tables",
    "pandas": "a processor that takes rows, by `transformWithState`",
    "pipeline model": "`frame.transform(model.transform)` instead of `model.transform(frame)`",
    "stages": "a second job on the output of the first",
    "static join": "`transform(lambda frame: frame.join(…))`",
    "tail": "the same in `foreachBatch`, or in what reads the output",
    "union with a stage's output": "a job for each branch, into one table",
    "views": "the same aggregate with `groupBy` and `agg` instead of SQL",
}
GROUPS: dict[str, list[Shape]] = {
    "One aggregate, written as it is": aggregates.SHAPES,
    "A window, and stateless operations after it": windows.SHAPES,
    "Stateless operations after the aggregate": after_the_stage.SHAPES,
    "Mode complete": complete_mode.SHAPES,
    "SQL over a view": views.SHAPES,
    "Deduplication": dedup.SHAPES,
    "Several stages": two_stages.SHAPES,
    "Processors": processors.SHAPES,
    "State in pandas": pandas_state.SHAPES,
    "Joins of two streams": joins.SHAPES,
}
SHAPES = [shape for shapes in GROUPS.values() for shape in shapes]


def missing(shape: Shape) -> list[str]:
    """Parts that the shape needs and that do not exist."""
    return [need for need in shape.needs if need in NOT_YET]


def figure() -> str:
    """How many jobs move by one line."""
    return f"{sum(not missing(shape) for shape in SHAPES)} of {len(SHAPES)}"
