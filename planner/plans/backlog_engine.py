"""Chooses the engine that reads and aggregates the history of a backlog, tasks' own or Spark; with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import PlanError
from ...runtime.catalyst.spark_cluster import jobs_so_far
from ...runtime.catalyst.spark_plans import united
from ...runtime.driver.epochs.source_rows import SourceRows
from ...runtime.jobs.columnar_pass import recognise
from ...runtime.jobs.row_pass import recognise_parts
from ...runtime.scan.engines import AUTO, ENGINES, FRESH_JOBS, LEAST_BYTES, engine_name
from ...runtime.scan.parquet_scan import NotTakenError
from ...runtime.scan.scan_plans import source_bytes
from .job_facts import runs_sorted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ...runtime.connectors.sources.source_lanes import Lane
    from ...runtime.spec import Settings, StageSpec

_OPTION = "execution.backlog.engine"
_ROW_WORK = {"join": "join", "dropDuplicates": "deduplicate", "dropDuplicatesWithinWatermark": "deduplicate"}


@dataclass(frozen=True)
class BacklogEngine:
    """What ``execution.backlog.engine`` comes to: decided once, with the plan, and a run goes by it."""

    #: For explain(); None: it does not apply.
    words: str | None
    #: By ``auto`` Spark reads files that have less together.
    least_bytes: int

    @classmethod
    def of(cls, settings: Settings, stages: Sequence[StageSpec], lanes: Sequence[Lane]) -> BacklogEngine:
        """The engine of a job.

        Args:
            settings: the job's settings.
            stages: all stages.
            lanes: all sources.

        Raises:
            PlanError: the option names an engine, and something stands against it.
        """
        least_bytes = _least_bytes(settings, lanes)
        return cls(_in_words(settings, stages, lanes, least_bytes), least_bytes)


def _least_bytes(settings: Settings, lanes: Sequence[Lane]) -> int:
    """Another number than usual only where that makes a difference, so that finished shards of large files can be used
    again by a run in an application that has been at work for longer."""
    histories = [part for lane in lanes if lane.history is not None for part in united(lane.history)]
    if settings.backlog_engine != AUTO or not runs_sorted(settings) or not histories:
        return LEAST_BYTES
    if jobs_so_far(histories[0].sparkSession) >= FRESH_JOBS:
        return LEAST_BYTES
    sizes = [source_bytes(part) for part in histories]
    return 0 if any(size is not None and size < LEAST_BYTES for size in sizes) else LEAST_BYTES


def _in_words(settings: Settings, stages: Sequence[StageSpec], lanes: Sequence[Lane], least_bytes: int) -> str | None:
    engine = settings.backlog_engine
    if not runs_sorted(settings):
        _refuse(engine, "the backlog runs as a stream")
        return None
    if engine == "spark":
        scans = any(stage.operator.scans_files or stage.operator.scans_rows for stage in stages)
        return f"spark ({_OPTION} = spark)" if scans else None
    rows = SourceRows({number: lane.history for number, lane in enumerate(lanes) if lane.history is not None})
    frames = [(stage, frame) for stage in stages if stage.reads and (frame := rows.of(stage)) is not None]
    if not frames:
        _refuse(engine, "there is no history")
        return None
    said = []
    why = "" if least_bytes == LEAST_BYTES else ", small ones too as Spark has run few jobs so far"
    for stage, frame in frames:
        name = f"stage {stage.uid}: " if len(frames) > 1 else ""
        if stage.operator.scans_rows:
            said.append(name + _of_rows(stage, frame, engine, least_bytes, why))
            continue
        for part in united(frame) if stage.operator.scans_files else [frame]:
            try:
                found = recognise(stage.operator, part, None, engine, settings.backlog_float_sums, least_bytes)
                rounded = ", sums of doubles in any order" if found.rounds_sums else ""
                said.append(f"{name}{_reads(engine)}{why} and aggregate them{rounded})")
            except NotTakenError as error:
                _refuse(engine, f"{name}{error}")
                if stage.operator.scans_files:
                    said.append(f"{name}spark ({engine}: {error})")
    return "; ".join(dict.fromkeys(said)) or None


def _of_rows(stage: StageSpec, frame: DataFrame, engine: str, least_bytes: int, why: str) -> str:
    """Who reads the rows of a stage that needs them as they are: tasks all of them, or Spark."""
    try:
        recognise_parts(stage.operator, [frame], None, engine, least_bytes)
    except NotTakenError as error:
        _refuse(engine, str(error))
        return f"spark ({engine}: {error})"
    return f"{_reads(engine)}{why} and {_ROW_WORK[stage.operator.kind]} their rows)"


def _reads(engine: str) -> str:
    return f"{engine_name(engine)} ({engine}: the tasks read the Parquet files"


def _refuse(engine: str, why: str) -> None:
    if engine in ENGINES:
        raise PlanError(
            f"{_OPTION} = {engine} cannot be had: {why}; use auto, which leaves to Spark what has to be Spark's"
        )
