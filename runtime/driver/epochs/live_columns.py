"""Has Spark's query of the live input read only the columns that the job looks at, as Spark does where it sees both.

Invariant: what the query hands over has the columns of the live frame, in their order and of their types; those that
nobody looks at are null.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from operator import is_

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ...catalyst.columns import quoted
from ...catalyst.needed_columns import needed_columns, sql_types
from ...catalyst.spark_session import frame_without_rows
from ...connectors.sources.live_inputs import INPUT_COLUMN
from ...connectors.sources.source_lanes import Lane, live_frame
from ...operators.contract import EpochSpec
from ...protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...spec import JobSpec, StageSpec
from ...support.ids import EpochNumber
from .source_rows import SourceRows

logger = logging.getLogger(__name__)

#: An epoch of the stream in which rows can be late, and a backlog's pass in which none is.
_EPOCHS = (
    EpochSpec(EpochNumber(1), "random", 0, 0, 0, 0, MIN_WATERMARK),
    EpochSpec(EpochNumber(1), "sorted", MIN_WATERMARK, MAX_WATERMARK, MIN_WATERMARK, 0, MAX_WATERMARK),
)


def live_with_needed_columns(job: JobSpec) -> DataFrame:
    """The job's live frame, with nulls in columns that no stage looks at.

    Args:
        job: the job; it has a live source.
    """
    assert job.live is not None, "who has no live source starts no query"
    try:
        lanes = [lane if lane.live is None else _narrowed(job, number, lane) for number, lane in enumerate(job.lanes)]
        if all(map(is_, lanes, job.lanes)):
            return job.live
        narrowed = live_frame(lanes)
    except (PySparkException, Py4JError) as error:
        logger.info("the live input is read with all of its columns: %s", error)
        return job.live
    return job.live if narrowed is None or narrowed.schema != job.live.schema else narrowed


def _narrowed(job: JobSpec, number: int, lane: Lane) -> Lane:
    live = lane.live
    assert live is not None, "asked for live lanes only"
    if len(set(live.columns)) < len(live.columns):
        return lane
    read = frame_without_rows(job.planning, live.schema)
    rows = SourceRows(lives=({number: read},))
    needed = needed_columns(read, (frame for stage in job.readers for frame in _made(job, stage, rows)))
    unneeded = {f.name: f.dataType for f in live.schema if f.nullable and f.name not in {INPUT_COLUMN, *needed}}
    if not unneeded:
        return lane
    logger.debug("of the live input nobody looks at %s", ", ".join(unneeded))
    types = sql_types(job.planning, unneeded.values())
    nulls = {name: f"CAST(NULL AS {types[kind]}) AS {quoted(name)}" for name, kind in unneeded.items()}
    return replace(lane, live=live.selectExpr(*(nulls.get(name, quoted(name)) for name in live.columns)))


def _made(job: JobSpec, stage: StageSpec, rows: SourceRows) -> Iterator[DataFrame]:
    """What a stage makes of rows: all that it looks at is looked at in one of these frames."""
    frame, timed = rows.of(stage), rows.timed(stage)
    if timed is not None:
        yield timed
    if frame is None:
        return
    if stage.event_time is not None and stage.event_time in frame.columns:
        yield frame.select(quoted(stage.event_time))
    for epoch in _EPOCHS:
        yield stage.operator.prepare(frame, epoch)
    late = None if job.late_rows is None else stage.operator.late_rows(frame, _EPOCHS[0])
    if late is not None:
        yield late
