"""The inputs of a job as one: whatever is done to a job's rows is done to each of them.

A job has histories and live inputs, in *branches*: a branch is what one ``read()`` was given, a history and the live
inputs that go on from it.  ``read()`` makes one branch, ``union`` puts branches side by side.

What comes out of a keyed stage is an input, too: of the stages behind it, or of the sink.  Its rows are not there until
an epoch runs, so its frame is an empty *template*, from which Spark's analyzer tells columns and mistakes, and what is
done to it is remembered as steps, to be done to the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count
from typing import Any, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...errors import PlanError
from ...runtime.catalyst.columns import column_fold, is_case_sensitive
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.connectors.sources.live_inputs import LiveInput
from ...runtime.jvm.spark_errors import error_text
from ...runtime.operators.frame_steps import FrameStep, Metrics, metrics_of, stepped, union_of
from .environment import check_session, refuse_connect
from .schemas import check_distinct_columns, check_same_columns, merge_nullability, quoted_columns
from .seam import Seam

_numbers = count(1)
HISTORY = "history"
LIVE = "live"


class StageOrigin(Protocol):
    """What makes the rows of a part that no source has: a keyed stage."""

    @property
    def uid(self) -> str: ...

    @property
    def inputs(self) -> Inputs: ...

    @property
    def template(self) -> DataFrame: ...

    @property
    def output(self) -> Inputs: ...


@dataclass(frozen=True)
class InputPart:
    """One DataFrame of the job's input."""

    name: str
    #: Of a stage's output: the template, behind all steps.
    frame: DataFrame
    #: Whether it has no end of its own.
    is_live: bool
    branch: int = 0
    #: True if the user gave the name.
    is_named: bool = False
    #: The stage that it is the output of; None: it is a source.
    origin: StageOrigin | None = None
    #: What has been done to the stage's rows, or to the source's, since.
    steps: tuple[FrameStep, ...] = ()
    #: The source as it was given; None: ``frame`` is it, or it is the output of a stage.
    source: DataFrame | None = None
    #: Its columns as users know them, where the stage that takes it has them in a frame with others; None: they are.
    columns: StructType | None = None
    #: Of a live source: how it goes on from its history; None: nobody has said.
    seam: Seam | None = None
    #: Number of the ``withWatermark`` call that its rows have passed last; None: they have passed none.
    timed_by: int | None = None
    #: How many of the steps come up to that call, and its column.
    timed_at: int = 0
    timed_column: str = ""

    def mapped(
        self, what: str, function: Callable[[DataFrame], DataFrame], carrying: Callable[..., DataFrame] | None = None
    ) -> InputPart:
        """The part through a function.

        Args:
            what: names it.
            function: is applied at once to the frame, and later to the rows of a stage.
            carrying: as of a :class:`FrameStep`.
        """
        source = self.frame if self.origin is None and self.source is None else self.source
        steps = (*self.steps, FrameStep(what, function, carrying))
        return replace(self, frame=function(self.frame), steps=steps, source=source)

    def is_timed_with(self, other: InputPart) -> bool:
        """True if one call of ``withWatermark`` sees the rows of both, which are the same source's."""
        same = self.timed_by is not None and self.timed_by == other.timed_by
        return same and self.as_given.frame is other.as_given.frame

    def observed(self, metrics: Metrics) -> InputPart:
        """The part, with something computed of its rows here; the frame is as it was."""
        source = self.frame if self.origin is None and self.source is None else self.source
        step = FrameStep("observe", lambda frame: frame, metrics=metrics)
        return replace(self, steps=(*self.steps, step), source=source)

    @property
    def as_given(self) -> InputPart:
        """The source before anything was done to it."""
        return self.behind(0)

    def behind(self, steps: int) -> InputPart:
        """The source behind the first steps only."""
        if self.source is None or steps == len(self.steps):
            return self
        first = self.steps[:steps]
        frame = stepped(self.source, first)
        return replace(self, frame=frame, steps=first, source=self.source if steps else None)


@dataclass(frozen=True)
class Inputs:
    """Sources and outputs of stages; at least one part, of one session, all with the same columns in the same order."""

    parts: tuple[InputPart, ...]
    #: Operations that were asked for and have no effect, for explain().
    ignored: tuple[str, ...] = ()
    #: How the rows are to be partitioned where they are written, if no keyed stage takes them; None: as they come.
    partitioning: FrameStep | None = None
    #: How a whole result is put in order, cut short, and what is done to it then, where it is shown.
    arrangement: tuple[FrameStep, ...] = ()
    #: Numbers of these rows, the last one, and of those that they are made of: columns remember whose they are.
    ids: tuple[int, ...] = field(default_factory=lambda: (next(_numbers),), compare=False)
    #: Ids of columns of static frames that they are joined with.
    static_ids: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def histories(self) -> tuple[InputPart, ...]:
        """The bounded sources."""
        return tuple(part for part in self.parts if part.origin is None and not part.is_live)

    @property
    def lives(self) -> tuple[InputPart, ...]:
        """The unbounded sources."""
        return tuple(part for part in self.parts if part.origin is None and part.is_live)

    @property
    def outputs(self) -> tuple[InputPart, ...]:
        """The outputs of stages."""
        return tuple(part for part in self.parts if part.origin is not None)

    @property
    def is_streaming(self) -> bool:
        """True if a live source is among them or below them."""
        return any(part.is_live for part in self.parts)

    @property
    def history(self) -> DataFrame | None:
        """All histories together."""
        return union_of([part.frame for part in self.histories])

    @property
    def live(self) -> DataFrame | None:
        """All live inputs together: one stream."""
        return union_of([part.frame for part in self.lives])

    @property
    def live_inputs(self) -> tuple[LiveInput, ...]:
        """The live inputs as the runtime knows them.

        Where rows of one call of ``withWatermark`` come on several ways (``rows.union(rows.where(…))``), each way's
        count for all, as in Spark, whose watermark is of that call: none lags behind because its rows were filtered.
        """
        return tuple(
            LiveInput(live.name, _moving(self.parts, live), None if live.seam is None else live.seam.claim)
            for live in self.lives
        )

    @property
    def template(self) -> DataFrame:
        """One of them, for questions about columns."""
        return self.parts[0].frame

    @property
    def shown(self) -> DataFrame:
        """The template as the whole result is shown, for questions about columns; without an arrangement the same."""
        return stepped(self.template, self.arrangement)

    @property
    def spark(self) -> SparkSession:
        return self.parts[-1].frame.sparkSession

    @property
    def schema(self) -> StructType:
        return reduce(merge_nullability, [part.frame.schema for part in self.parts])

    @property
    def case_sensitive(self) -> bool:
        return is_case_sensitive(self.spark)

    def map(
        self, what: str, function: Callable[[DataFrame], DataFrame], carrying: Callable[..., DataFrame] | None = None
    ) -> Inputs:
        """Every part through a function.

        Args:
            what: names it.
            function: is applied to each part.
            carrying: as of a :class:`FrameStep`.

        Raises:
            AnalysisException: Spark's own, if the first part does not take it.
            PlanError: a later part does not take it.
        """
        self.check_not_arranged(what)
        first, *others = self.parts
        mapped = [first.mapped(what, function, carrying)]
        for part in others:
            try:
                mapped.append(part.mapped(what, function, carrying))
            except AnalysisException as error:
                raise PlanError(
                    f"{what} works on {first.name} but not on {part.name}: {error_text(error)}; a column that was taken"
                    " from a frame (frame['x'], frame.x) belongs to that frame alone, use its name or F.col('x')"
                ) from error
        return replace(self, parts=tuple(mapped), ids=(*self.ids, next(_numbers)))

    def observed(self, name: str, columns: Sequence[Column]) -> Inputs:
        """The same, with aggregates computed of all rows here.

        Raises:
            AnalysisException: Spark's own, if these are no aggregates of the columns.
            PlanError: a whole result is in order already.
        """
        self.check_not_arranged("observe")
        template = empty_frame(self.spark, self.schema)
        template.observe(name, *columns)
        metrics = Metrics(name, tuple(columns), template)
        return replace(self, parts=tuple(part.observed(metrics) for part in self.parts))

    def timed(self, column: str) -> Inputs:
        """The same, behind a call of ``withWatermark`` of its own with this column."""
        number = next(_numbers)
        timed = (replace(part, timed_by=number, timed_at=len(part.steps), timed_column=column) for part in self.parts)
        return replace(self, parts=tuple(timed))

    def check_not_arranged(self, what: str) -> None:
        """Raise PlanError if a whole result is in order already: what comes now would come where it is shown."""
        if self.arrangement:
            raise PlanError(
                f"{what} comes after {self.arrangement[-1].what}, which is done where the result is shown; call {what}"
                f" before {self.arrangement[0].what}"
            )

    def partitioned(self, what: str, function: Callable[[DataFrame], DataFrame]) -> Inputs:
        """The same, to be partitioned by a function where it is written; ``what`` names it.  For stages it is nothing.

        Raises:
            AnalysisException: Spark's own, if the columns do not take it.
        """
        function(self.template)
        ignored = self.ignored if what in self.ignored else (*self.ignored, what)
        return replace(self, ignored=ignored, partitioning=FrameStep(what, function))

    @property
    def for_writing(self) -> Inputs:
        """The same in the partitions that they were told to have, where the columns for that are still there."""
        step = self.partitioning
        if step is None:
            return self
        try:
            made = self.map(step.what, step)
        except (AnalysisException, PlanError):
            return self
        return replace(made, ignored=tuple(what for what in self.ignored if what != step.what), partitioning=None)

    def union(self, other: Inputs) -> Inputs:
        """Both side by side; live inputs that nobody has named are numbered, and one that is there twice is, too.

        Raises:
            PlanError: two live inputs have one name, or the columns differ.
        """
        shift = 1 + max(part.branch for part in self.parts)
        moved = [replace(part, branch=part.branch + shift) for part in _observed_apart(other.parts, self.parts)]
        united = checked(numbered_names([*self.parts, *_named_apart(moved, self.parts)]))
        return replace(united, ignored=tuple(dict.fromkeys([*self.ignored, *other.ignored])))


def _named_apart(parts: Sequence[InputPart], others: Sequence[InputPart]) -> list[InputPart]:
    """The parts, of which a named live input that is among the others, too, gets a name of its own: ``<name>-2``."""
    taken = {part.name: part for part in others if part.is_named}
    named: list[InputPart] = []
    for part in parts:
        name, number, other = part.name, 1, taken.get(part.name)
        if part.is_named and other is not None and part.as_given.frame is other.as_given.frame:
            while name in taken:
                number += 1
                name = f"{part.name}-{number}"
        taken[name] = part
        named.append(replace(part, name=name))
    return named


def _observed_apart(parts: Sequence[InputPart], others: Sequence[InputPart]) -> list[InputPart]:
    """The parts with metrics of their own, where others come from the same call of ``observe`` on another way."""
    taken = metrics_of(*(part.steps for part in others))
    own = {metrics: replace(metrics) for metrics in taken}

    def apart(step: FrameStep) -> FrameStep:
        return replace(step, metrics=own[step.metrics]) if step.metrics in taken else step

    return [replace(part, steps=tuple(map(apart, part.steps))) for part in parts] if taken else list(parts)


def checked(parts: Sequence[InputPart]) -> Inputs:
    """The parts as inputs, if they fit together."""
    for part in parts:
        if part.origin is None:
            _check_frame(part.name, part.frame, part.is_live)
        else:
            check_distinct_columns(f"the output of {part.name}", part.frame.schema)
    inputs = Inputs(tuple(parts))
    check_session(inputs.spark)
    first, *others = parts
    columns = first.frame.columns

    def in_its_order(frame: DataFrame, *more: Column) -> DataFrame:
        return frame.select(*quoted_columns(columns), *more)

    aligned = [first]
    for part in others:
        if part.frame.sparkSession.sparkContext is not first.frame.sparkSession.sparkContext:
            raise PlanError(
                f"{first.name} and {part.name} belong to different Spark contexts; make both with one session"
            )
        sides = (first.name, part.name) if first.name != part.name else ("one side", "the other side")
        check_same_columns(first.frame.schema, part.frame.schema, sides, column_fold(inputs.spark))
        in_order = part.frame.columns == first.frame.columns
        aligned.append(part if in_order else part.mapped("union", in_its_order, in_its_order))
    return Inputs(tuple(aligned))


def numbered_names(parts: Sequence[InputPart]) -> list[InputPart]:
    """The parts with distinct names: of several live inputs without one, the n-th is called ``live-n``."""
    several = sum(map(_is_live_source, parts)) > 1
    named: list[InputPart] = []
    for part in parts:
        if _is_live_source(part) and not part.is_named:
            number = 1 + sum(map(_is_live_source, named))
            part = replace(part, name=f"{LIVE}-{number}" if several else LIVE)
        if _is_live_source(part) and part.name in {other.name for other in named}:
            raise PlanError(
                f"two live inputs are called {part.name!r}; give each a name of its own: live={{'<name>': frame, …}}"
            )
        named.append(part)
    return named


def _is_live_source(part: InputPart) -> bool:
    return part.is_live and part.origin is None


def _check_frame(name: str, frame: Any, streaming: bool) -> None:
    refuse_connect(frame)
    if not isinstance(frame, DataFrame):
        raise PlanError(f"{name} must be a DataFrame, got {type(frame).__name__}")
    if frame.isStreaming and not streaming:
        raise PlanError(
            f"{name} is a streaming DataFrame; history must end: read it with spark.read, or pass it as live"
        )
    if streaming and not frame.isStreaming:
        raise PlanError(f"{name} is a batch DataFrame; read it with spark.readStream, or pass it as history")
    check_distinct_columns(name, frame.schema)


def _moving(parts: Sequence[InputPart], live: InputPart) -> tuple[int, ...]:
    """Numbers of the parts whose rows move the watermark of a live input."""
    ways = [one for one in parts if one.origin is None and one.is_live and (one is live or one.is_timed_with(live))]
    branches = {one.branch for one in ways}
    return tuple(
        number
        for number, part in enumerate(parts)
        if any(part is one for one in ways) or (not part.is_live and part.branch in branches)
    )
