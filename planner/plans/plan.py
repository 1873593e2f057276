"""The execution plan: what ``start()`` will do, as frozen data that can be printed, compared and stored.

It is made by the writer's ``plan()``; ``start()`` makes the same plan and executes its ``phases``.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ...runtime.spec import Phase, Settings


class SourcePlan(BaseModel):
    """One input of the job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    #: ``bounded`` ends, ``unbounded`` does not.
    boundedness: Literal["bounded", "unbounded"]
    #: The input's columns, as DDL.
    columns: str
    #: Spark's plan of the input, for the extended explain.
    spark_plan: str
    #: How far the watermark of a live input stays behind its own greatest event time; None: no watermark, or no stream.
    watermark_delay_ms: int | None = None


class SinkPlan(BaseModel):
    """Where the output goes, and what a reader of it may rely on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    guarantee: Literal["exactly-once", "at-least-once"]
    #: How a driver that was paused and has lost its location is kept out; None: only by its own clock.
    fencing: str | None = None


class ExecutionPlan(BaseModel):
    """Everything that was decided about a job; ``str(plan)`` is its explain text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None
    sources: tuple[SourcePlan, ...]
    #: Event-time column and delay of the watermark; None: ``withWatermark`` was not called.
    event_time: str | None
    watermark_delay_ms: int
    #: The operator's own description of itself (JSON values only).
    operator: dict[str, Any]
    output_columns: str
    output_mode: str
    sink: SinkPlan
    trigger: dict[str, Any]
    settings: Settings
    #: Shards of a fresh run; a restart keeps the checkpoint's unless ``pipeline.parallelism`` says otherwise.
    parallelism: int
    checkpoint_location: str | None
    phases: tuple[Phase, ...]
    #: Class of the keyed stage's coordinator; None: it has none.
    coordinator: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may give results that the author does not expect; ``start()`` logs it."""
        return tuple(phase.details["warning"] for phase in self.phases if "warning" in phase.details)

    def explain(self, extended: bool = False) -> str:
        """The plan as text; extended adds all settings and Spark's plans of the inputs."""
        from .explain import render

        return render(self, extended=extended)

    def __str__(self) -> str:
        return self.explain()
