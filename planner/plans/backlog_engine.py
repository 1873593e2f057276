"""Who reads and aggregates the history of a backlog: tasks with Arrow, or Spark; said at the start, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import PlanError
from ...runtime.driver.source_rows import SourceRows
from ...runtime.platform.parquet_scan import NotTakenError
from ...runtime.platform.spark_plans import united
from ...runtime.tasks.columnar_pass import recognise
from .phases import runs_sorted

if TYPE_CHECKING:
    from ...runtime.connectors.sources.lanes import Lane
    from ...runtime.spec import Settings, StageSpec

_OPTION = "execution.backlog.engine"


def choose_backlog_engine(settings: Settings, stages: Sequence[StageSpec], lanes: Sequence[Lane]) -> str | None:
    """What ``execution.backlog.engine`` comes to, in words; None: it does not apply.

    Args:
        settings: the job's settings.
        stages: all stages.
        lanes: all sources.

    Raises:
        PlanError: it is ``arrow``, and something stands against it.
    """
    engine = settings.backlog_engine
    if not runs_sorted(settings):
        _refuse(engine, "the backlog runs as a stream")
        return None
    if engine == "spark":
        return f"spark ({_OPTION} = spark)" if any(stage.operator.scans_files for stage in stages) else None
    rows = SourceRows({number: lane.history for number, lane in enumerate(lanes) if lane.history is not None})
    frames = [(stage, frame) for stage in stages if stage.reads and (frame := rows.of(stage)) is not None]
    if not frames:
        _refuse(engine, "there is no history")
        return None
    said = []
    for stage, frame in frames:
        name = f"stage {stage.uid}: " if len(frames) > 1 else ""
        for part in united(frame) if stage.operator.scans_files else [frame]:
            try:
                found = recognise(stage.operator, part, None, engine, settings.backlog_float_sums)
                rounded = ", sums of doubles in any order" if found.rounds_sums else ""
                said.append(f"{name}arrow ({engine}: the tasks read the Parquet files and aggregate them{rounded})")
            except NotTakenError as error:
                _refuse(engine, f"{name}{error}")
                if stage.operator.scans_files:
                    said.append(f"{name}spark ({engine}: {error})")
    return "; ".join(dict.fromkeys(said)) or None


def _refuse(engine: str, why: str) -> None:
    if engine == "arrow":
        raise PlanError(
            f"{_OPTION} = arrow cannot be had: {why}; use auto, which leaves to Spark what has to be Spark's"
        )
