"""The stages of a job as the runtime gets them: an id and an operator for each, and what leads from one to the next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import cast

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from ...errors import PlanError
from ...runtime.connectors.sources.inputs import INPUT_COLUMN
from ...runtime.platform.spark_errors import error_text
from ...runtime.platform.spark_session import empty_frame
from ...runtime.spec import Settings, StageEdge, StageSpec
from ..inputs.inputs import Inputs
from ..stages.stage import STAGE_UID, KeyedStage, stages_of


@dataclass(frozen=True)
class StageGraph:
    """The keyed stages of a job in topological order; the last one's rows go to the sink."""

    stages: tuple[KeyedStage, ...]
    #: Their ids, in the same order.
    uids: tuple[str, ...]

    @classmethod
    def of(cls, output: Inputs) -> StageGraph:
        """The stages that rows come through on their way to the output.

        Raises:
            PlanError: two have one id, or rows come together in a way that does not run.
        """
        stages = stages_of(output)
        uids = tuple(f"keyed-{place}" if stage.uid == STAGE_UID else stage.uid for place, stage in enumerate(stages))
        repeated = [uid for uid, times in Counter(uids).items() if times > 1]
        if repeated:
            raise PlanError(
                f"two keyed stages have the id {repeated[0]!r}, under which the state of one is stored; give each its"
                " own with .uid('…')"
            )
        graph = cls(stages, uids)
        graph._check(output)
        return graph

    def _check(self, output: Inputs) -> None:
        first = self.readers[0].inputs
        for reader in self.readers[1:]:
            if [part.as_given.frame for part in reader.inputs.parts] != [part.as_given.frame for part in first.parts]:
                raise PlanError(
                    f"the keyed stages {self.uid_of(self.readers[0])} and {self.uid_of(reader)} read different sources,"
                    " which does not run for now; give both what one read() returns"
                )
        for uid, stage in zip(self.uids, self.stages, strict=True):
            if stage.inputs.outputs and len(stage.inputs.outputs) < len(stage.inputs.parts):
                raise PlanError(
                    f"the keyed stage {uid} takes rows of another stage together with rows of a source, which does not"
                    " run for now; let the source's rows go through the same stages"
                )
        if len(output.parts) > 1:
            raise PlanError(
                "the output is the union of what several keyed stages give, which does not run for now; write each with"
                " a job of its own"
            )

    @property
    def readers(self) -> tuple[KeyedStage, ...]:
        """The stages that read the sources."""
        return tuple(stage for stage in self.stages if not stage.inputs.outputs)

    @property
    def first(self) -> KeyedStage:
        """The first stage that reads the sources."""
        return self.stages[0]

    @property
    def sources(self) -> Inputs:
        """What is read: as the stage takes it, or, where several do, as it was given."""
        return self.first.inputs.as_given if len(self.readers) > 1 else self.first.inputs

    @property
    def last(self) -> KeyedStage:
        """The stage whose rows go to the sink."""
        return self.stages[-1]

    @property
    def unnamed(self) -> tuple[str, ...]:
        """Ids of the stages that the user has given none."""
        return tuple(uid for uid, stage in zip(self.uids, self.stages, strict=True) if stage.uid == STAGE_UID)

    def uid_of(self, stage: KeyedStage) -> str:
        """A stage's id."""
        return self.uids[self.stages.index(stage)]

    def specs(self, output_mode: str, settings: Settings) -> tuple[StageSpec, ...]:
        """The stages with their operators.

        Args:
            output_mode: of the last one; rows of the others are handed on when they are final.
            settings: of the job.

        Raises:
            PlanError: a stage cannot have this output mode.
        """
        specs = tuple(
            self._spec(uid, stage, output_mode if stage is self.last else "append", settings)
            for uid, stage in zip(self.uids, self.stages, strict=True)
        )
        for spec in specs[:-1]:
            if settings.runtime_mode == "batch" and (spec.operator.has_end_hooks or spec.coordinator is not None):
                raise PlanError(
                    f"execution.runtime-mode is batch, where a stage forgets each key at its end, but stage {spec.uid}"
                    " may hand on more rows when all input has ended: its processor has endInput(), finish() or a"
                    " coordinator. Use mixed or streaming"
                )
        return specs

    def _spec(self, uid: str, stage: KeyedStage, output_mode: str, settings: Settings) -> StageSpec:
        try:
            operator = stage.build(uid, output_mode, settings)
        except PlanError as error:
            if stage is self.last:
                raise
            raise PlanError(
                f"stage {uid}, whose rows go to another stage, hands on rows when they are final (outputMode append):"
                f" {error}"
            ) from error
        watermark = stage.watermark
        shared = not stage.inputs.outputs and len(self.readers) > 1
        if shared:
            self._check_repeatable(uid, stage)
        return StageSpec(
            operator=operator,
            event_time=None if watermark is None else watermark.event_time,
            watermark_delay_ms=0 if watermark is None else watermark.delay_ms,
            coordinator=stage.coordinator,
            edges=tuple(
                StageEdge(
                    self.uid_of(cast(KeyedStage, part.origin)),
                    part.steps,
                    0 if watermark is None else watermark.delay_of(part.name),
                    part.frame if part.steps else None,
                    None if watermark is None else watermark.event_time,
                )
                for part in stage.inputs.outputs
            ),
            source_steps=stage.inputs.parts[0].steps if shared else (),
            source_template=stage.inputs.template if shared else None,
            delays_ms={
                live.name: 0 if watermark is None else watermark.delay_of(live.name) for live in stage.inputs.lives
            }
            if shared
            else None,
        )

    def _check_repeatable(self, uid: str, stage: KeyedStage) -> None:
        """Check that what precedes a stage can be done to other rows than those of the frame it was written on."""
        part = stage.inputs.parts[0]
        empty = empty_frame(stage.inputs.spark, part.as_given.frame.schema).withColumn(INPUT_COLUMN, F.lit(0))
        try:
            rows = reduce(lambda frame, step: step.keeping(frame, INPUT_COLUMN), part.steps, empty)
        except AnalysisException as error:
            raise PlanError(
                f"what precedes the keyed stage {uid} works only on the frame that it was written for:"
                f" {error_text(error)}; where several stages read the same sources, use names or F.col('x') instead of"
                " columns that were taken from a frame (frame['x'], frame.x)"
            ) from error
        if len(stage.inputs.lives) > 1 and INPUT_COLUMN not in rows.columns:
            raise PlanError(
                f"what precedes the keyed stage {uid} ({', '.join(step.what for step in part.steps)}) does not say any"
                " more which live input a row came from, and several stages read several of them; do it behind the"
                " stage, or in one job for each"
            )

    def reads(self, stage: KeyedStage) -> tuple[str, ...]:
        """Names of what a stage takes rows from: sources, or earlier stages by their ids."""
        inputs = stage.inputs
        sources = (["history"] if inputs.histories else []) + [part.name for part in inputs.lives]
        before = [self.uid_of(cast(KeyedStage, part.origin)) for part in inputs.outputs]
        return tuple(dict.fromkeys([*sources, *before]))
