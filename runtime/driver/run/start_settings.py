"""Has a job planned with the settings that its sessions have at ``start()``, whatever is set afterwards.

Plans are made when there is something to plan: of a backlog when it is read, of the stream with its first epochs.  A
setting that decides what an expression gives (``spark.sql.ansi.enabled``, the time zone) would otherwise be that of
some later moment, another one for each stage.  Spark does the same for a streaming query.

A file relation keeps the session that it was made in, here as in Spark's streaming queries, and Spark asks that one how
files are read when it reads them: the zone of times in CSV, JSON and XML files, which readers take as an option, too.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from ...catalyst.spark_plans import analyzed, frame_of
from ...catalyst.spark_session import cloned, copy_variables
from ...spec import JobSpec


def with_settings_of_now(job: JobSpec) -> JobSpec:
    """The job, its histories and stages in sessions with the settings, functions and variables of now.

    What users see of the session stays theirs: what Spark shows of the job, and what sinks are given.  The live frame
    is taken care of by :class:`...connectors.sources.live_query.LiveSource`.
    """
    kept: dict[int, SparkSession] = {}

    def of(session: SparkSession) -> SparkSession:
        if id(session) not in kept:
            kept[id(session)] = cloned(session)
            copy_variables(session, kept[id(session)])
        return kept[id(session)]

    def adopted(frame: DataFrame) -> DataFrame:
        return frame_of(of(frame.sparkSession), analyzed(frame))

    lanes = tuple(lane if lane.history is None else replace(lane, history=adopted(lane.history)) for lane in job.lanes)
    return replace(job, lanes=lanes, planned_in=of(job.spark))
