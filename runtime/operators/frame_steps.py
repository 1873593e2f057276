"""One stateless operation on the rows of a stage, remembered to be done to rows that are not there yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..catalyst.columns import quoted


@dataclass(frozen=True, eq=False)
class Metrics:
    """What ``observe`` has Spark compute of rows on their way.

    It is itself: inputs that went through one call together have the same one, and their rows are observed together.
    """

    name: str
    #: Aggregates; they cannot leave the driver.
    columns: tuple[Column, ...]
    #: No rows, with the columns that are there.
    template: DataFrame
    #: The call that it is of: rows may be brought together with others that went through the same call elsewhere.
    call: object = field(default_factory=object)


@dataclass(frozen=True)
class FrameStep:
    """An operation of a ``DataFrame``."""

    #: The method that was called.
    what: str
    function: Callable[[DataFrame], DataFrame]
    #: The same with more columns in its result, given behind the frame; None: the operation keeps all columns anyway.
    carrying: Callable[..., DataFrame] | None = None
    #: What is computed of the rows here; they stay as they are.  None: it is another operation.
    metrics: Metrics | None = None

    def __call__(self, frame: DataFrame) -> DataFrame:
        return self.function(frame)

    def keeping(self, frame: DataFrame, column: str) -> DataFrame:
        """The same, and one column of the frame that the operation knows nothing of, if that is possible."""
        if self.carrying is None or column not in frame.columns:
            return self.function(frame)
        return self.carrying(frame, F.col(quoted(column)))


def metrics_of(*ways: Sequence[FrameStep]) -> tuple[Metrics, ...]:
    """What is computed of rows on their ways, each once."""
    return tuple(dict.fromkeys(step.metrics for steps in ways for step in steps if step.metrics is not None))


def behind_steps(rows: Sequence[tuple[DataFrame, Sequence[FrameStep]]], kept: str) -> list[DataFrame]:
    """Rows behind the operations on them; what is observed together becomes one frame where it is observed.

    Args:
        rows: frames, each with what is to be done to it.  Behind a common ``observe`` that is the same for all.
        kept: a column that goes along where it can, and that the operations know nothing of.
    """
    waiting = [(frame, tuple(steps)) for frame, steps in rows]
    while (metrics := _next_observed([steps for _, steps in waiting])) is not None:
        places = [_place(metrics, steps) for _, steps in waiting]
        found = [(frame, steps, at) for (frame, steps), at in zip(waiting, places, strict=True) if at is not None]
        frames = _alike([done(frame, steps[:at], kept) for frame, steps, at in found], kept)
        together = union_of(frames)
        assert together is not None, "something is observed"
        observed = together.observe(metrics.name, *metrics.columns)
        _, steps, at = found[0]
        others = [one for one, at in zip(waiting, places, strict=True) if at is None]
        waiting = [(observed, steps[at + 1 :]), *others]
    return [done(frame, steps, kept) for frame, steps in waiting]


def _next_observed(ways: Sequence[Sequence[FrameStep]]) -> Metrics | None:
    """What can be observed now: on every way that leads through it nothing else comes before; None: nothing is left."""
    first = [next((step.metrics for step in steps if step.metrics is not None), None) for steps in ways]
    for metrics in first:
        ready = (one is metrics or _place(metrics, steps) is None for one, steps in zip(first, ways, strict=True))
        if metrics is not None and all(ready):
            return metrics
    return None


def _place(metrics: Metrics | None, steps: Sequence[FrameStep]) -> int | None:
    return next((at for at, step in enumerate(steps) if step.metrics is metrics), None)


def stepped(frame: DataFrame, steps: Sequence[FrameStep]) -> DataFrame:
    """Rows behind operations."""
    return reduce(lambda rows, step: step(rows), steps, frame)


def done(frame: DataFrame, steps: Sequence[FrameStep], kept: str) -> DataFrame:
    """Rows behind operations; ``kept``: a column that goes along where it can."""
    return reduce(lambda rows, step: step.keeping(rows, kept), steps, frame)


def _alike(frames: Sequence[DataFrame], kept: str) -> list[DataFrame]:
    if all(kept in frame.columns for frame in frames):
        return list(frames)
    return [frame.drop(kept) for frame in frames]


def union_of(frames: Sequence[DataFrame]) -> DataFrame | None:
    """All rows of frames with the same columns; None: there are no frames."""
    return reduce(lambda one, other: one.unionByName(other), frames) if frames else None
