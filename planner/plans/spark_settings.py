"""Settings of Spark's own streaming queries that say what a stream gives: obeyed, or refused."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from ...errors import OptionError
from ...runtime.catalyst.spark_session import is_on
from ...runtime.checkpoints.store import has_checkpoint
from ...runtime.spec import StageSpec

_WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


def check_watermark_policy(spark: SparkSession, stages: Sequence[StageSpec], location: str | None) -> None:
    """Raise OptionError if the least of several watermarks is not to count; of one it does not matter.

    A job that goes on keeps the policy that it began with, as in Spark.
    """
    policy = str(spark.conf.get(_WATERMARK_POLICY, "min"))
    timed = [name for stage in stages if stage.event_time is not None for name in stage.delays_ms]
    if policy.lower() != "min" and len(timed) > 1 and not has_checkpoint(location):
        raise OptionError(
            f"{_WATERMARK_POLICY} is {policy!r}, and the job has several watermarks (of {', '.join(timed)}): only min"
            " is supported, where the slowest input says what is late; set it to min, or use"
            " pipeline.watermark.idle-timeout for inputs that have no rows for a while"
        )


def fires_without_rows(spark: SparkSession) -> bool:
    """Whether what is due fires although no rows come, as Spark does in a micro-batch without data."""
    return is_on(spark, _NO_DATA_BATCHES, default=True)
