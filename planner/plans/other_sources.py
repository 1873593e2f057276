"""A described job over other sources than those that it was given: a sample of its history, rows of a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from pyspark.sql import DataFrame

from ...runtime.operators.frame_steps import stepped
from ..inputs.inputs import InputPart, Inputs
from ..stages.stage import KeyedStage

#: Makes of a source another one; what was done to the source since is done to that, unless it says that it was.
SourceOf = Callable[[InputPart], InputPart]


@dataclass
class OtherSources:
    """Takes the sources of inputs, and of the stages below them, for others.

    Args:
        source_of: called once for each source, with its steps.
    """

    source_of: SourceOf
    _stages: dict[KeyedStage, KeyedStage] = field(init=False, default_factory=dict)

    def of(self, inputs: Inputs) -> Inputs:
        """The same rows of other sources."""
        return replace(inputs, parts=tuple(self._part(part) for part in inputs.parts))

    def _part(self, part: InputPart) -> InputPart:
        if part.origin is None:
            return self.source_of(part)
        stage = self._stage(cast(KeyedStage, part.origin))
        return replace(part, origin=stage, is_live=stage.inputs.is_streaming)

    def _stage(self, stage: KeyedStage) -> KeyedStage:
        if stage not in self._stages:
            bare = None if stage.bare is None else self._stage(stage.bare)
            self._stages[stage] = replace(stage, inputs=self.of(stage.inputs), bare=bare)
        return self._stages[stage]


def with_source(part: InputPart, frame: DataFrame) -> InputPart:
    """The part with another frame of the same columns as what it was given; its steps are done to that."""
    if part.source is None:
        return replace(part, frame=frame)
    return replace(part, frame=stepped(frame, part.steps), source=frame)


def sampled_inputs(inputs: Inputs, rows: int) -> tuple[Inputs, int]:
    """The first rows of each history, where the first stage gets them, and nothing of the stream.

    Args:
        inputs: the output of a job.
        rows: how many of each history.

    Returns:
        The inputs, and how many rows there are.
    """
    found = 0

    def source_of(part: InputPart) -> InputPart:
        nonlocal found
        spark = part.frame.sparkSession
        taken = [] if part.is_live else part.frame.limit(rows).collect()
        found += len(taken)
        frame = spark.createDataFrame(taken, part.frame.schema, verifySchema=False)
        return replace(part, frame=frame, is_live=False, steps=(), source=None, seam=None)

    return OtherSources(source_of).of(inputs), found
