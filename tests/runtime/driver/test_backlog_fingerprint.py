"""Two runs share finished shards of a backlog only if what they stage is the same, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mixedmode import read
from mixedmode.planner.frames.writer import MixedStreamWriter
from mixedmode.runtime.driver.backlog_fingerprint import backlog_fingerprint
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark


def digest(writer: MixedStreamWriter) -> str | None:
    job = writer._compile()[1]
    return backlog_fingerprint(job, 2, 128)


@pytest.fixture(scope="module")
def writer(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., MixedStreamWriter]:
    folder = str(tmp_path_factory.mktemp("job"))

    def make(alias: str = "total", format: str = "parquet", path: str = "out", **options: Any) -> MixedStreamWriter:
        keyed = read(history=spark.range(10)).groupBy((F.col("id") % 2).alias("k")).agg(F.sum("id").alias(alias))
        made = keyed.writeStream.format(format).option("checkpointLocation", f"{folder}/ck").options(**options)
        return made.option("path", f"{folder}/{path}") if format == "parquet" else made

    return make


def test_the_output_is_part_of_the_backlog(writer: Callable[..., MixedStreamWriter], tmp_path: Path) -> None:
    """An alias, another folder, a layout, another sink: staged rows would be missing, or under an old name."""
    same, again = digest(writer()), digest(writer())
    assert same is not None and same == again
    others = [
        writer(alias="sum"),
        writer(path="other"),
        writer().partitionBy("k"),
        writer(format="noop"),
        writer(format="noop").foreachBatch(lambda rows, number: None),
    ]
    digests = [digest(other) for other in others]
    assert None not in digests
    assert len({same, *digests}) == 1 + len(others)
