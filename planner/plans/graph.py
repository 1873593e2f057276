"""The stages of a job as the runtime gets them: an id and an operator for each, and what leads from one to the next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from ...errors import PlanError
from ...runtime.spec import Settings, StageEdge, StageSpec
from ..inputs.inputs import Inputs
from ..stages.stage import STAGE_UID, KeyedStage, stages_of
from .kept_shards import with_key_groups
from .source_lanes import Lanes


@dataclass(frozen=True)
class StageGraph:
    """The keyed stages of a job in topological order; the last one's rows go to the sink."""

    stages: tuple[KeyedStage, ...]
    #: Their ids, in the same order.
    uids: tuple[str, ...]
    #: Those whose rows go to the sink: the last one, or several that are united there.
    outputs: tuple[KeyedStage, ...] = ()

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
        graph = cls(stages, uids, tuple(cast(KeyedStage, part.origin) for part in output.parts))
        graph._check()
        return graph

    def _check(self) -> None:
        lives = {part.name for part in self.lanes.parts if part.is_live}
        alike = lives.intersection(self.uids) if len(self.stages) > 1 else ()
        if alike:
            raise PlanError(
                f"a keyed stage and a live input are both called {min(alike)!r}, and watermarks go by those names; give"
                " the stage another .uid('…')"
            )

    @cached_property
    def lanes(self) -> Lanes:
        """What is read, by what stages take together."""
        return Lanes.of(self.stages)

    @property
    def readers(self) -> tuple[KeyedStage, ...]:
        """The stages that read the sources."""
        return tuple(stage for stage in self.stages if self.lanes.of_stage(stage))

    @property
    def first(self) -> KeyedStage:
        """The first stage that reads the sources."""
        return self.stages[0]

    @property
    def last(self) -> KeyedStage:
        """The stage whose rows go to the sink."""
        return self.stages[-1]

    def uid_of(self, stage: KeyedStage) -> str:
        """A stage's id."""
        return self.uids[self.stages.index(stage)]

    def specs(self, output_mode: str, settings: Settings) -> tuple[StageSpec, ...]:
        """The stages with their operators.

        Args:
            output_mode: of those whose rows go to the sink; rows of the others are handed on when they are final.
            settings: of the job.

        Raises:
            PlanError: a stage cannot have this output mode.
        """
        specs = tuple(
            self._spec(uid, stage, output_mode if stage in self.outputs else "append", settings)
            for uid, stage in zip(self.uids, self.stages, strict=True)
        )
        for spec in specs[:-1]:
            if settings.runtime_mode == "batch" and (spec.operator.has_end_hooks or spec.coordinator is not None):
                raise PlanError(
                    f"execution.runtime-mode is batch, where a stage forgets each key at its end, but stage {spec.uid}"
                    " may hand on more rows when all input has ended: its processor has endInput(), finish() or a"
                    " coordinator. Use mixed or streaming"
                )
        return with_key_groups(self.stages, specs, settings)

    def _spec(self, uid: str, stage: KeyedStage, output_mode: str, settings: Settings) -> StageSpec:
        try:
            operator = stage.build(uid, output_mode, settings)
        except PlanError as error:
            if stage in self.outputs:
                raise
            raise PlanError(
                f"stage {uid}, whose rows go to another stage, hands on rows when they are final (outputMode append):"
                f" {error}"
            ) from error
        watermark, lives = stage.watermark, self.lanes.names_of(stage)
        without = frozenset() if watermark is None else watermark.without
        return StageSpec(
            operator=operator,
            event_time=None if watermark is None else watermark.event_time,
            watermark_delay_ms=0 if watermark is None else watermark.delay_ms,
            coordinator=stage.coordinator,
            edges=tuple(
                StageEdge(
                    self.uid_of(cast(KeyedStage, part.origin)),
                    part.steps,
                    (0 if watermark is None else watermark.delay_of(part.name))
                    + cast(KeyedStage, part.origin).output_delay_ms,
                    part.frame if part.steps else None,
                    None if watermark is None else watermark.event_time,
                    has_watermark=watermark is None or part.name not in watermark.without,
                )
                for part in stage.inputs.outputs
            ),
            reads=self.lanes.reads_of(uid, stage),
            delays_ms={
                name: 0 if watermark is None else watermark.delay_of(own)
                for name, own in lives.items()
                if own not in without
            },
            timeless=tuple(name for name, own in lives.items() if own in without),
            has_lone_history=self.lanes.has_lone_history(stage),
        )

    def reads(self, stage: KeyedStage) -> tuple[str, ...]:
        """Names of what a stage takes rows from: sources, or earlier stages by their ids."""
        taken = self.lanes.of_stage(stage)
        sources = [self.lanes.history_name(number) for number, lane, _ in taken if lane.inputs.histories]
        sources += self.lanes.names_of(stage)
        before = [self.uid_of(cast(KeyedStage, part.origin)) for part in stage.inputs.outputs]
        return tuple(dict.fromkeys([*sources, *before]))
