"""Jobs from tables into tables, killed where a table could get rows twice or not at all: each comes out once."""

from __future__ import annotations

from pathlib import Path

import driver_lake
import pytest
from driver_jvm import KILLED, DriverJvm
from driver_lake import COUNTS, source_of
from kafka_support import check_each_once
from lake_support import numbers
from mixedmode.runtime.support.failpoints import VARIABLE
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

DRIVER = Path(driver_lake.__file__)
NAMES = ("append", "merge", "complete", "iceberg")


@pytest.mark.kill
@pytest.mark.timeout(900)
def test_tables_get_each_row_once_over_kills(spark: SparkSession, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """Killed in the backlog, at the switch, between a table's commit and its marker, in a MERGE, and in an epoch of the
    stream, jobs leave what a plain batch makes of the table that they read."""
    spark.conf.set("spark.sql.catalog.killed", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.killed.type", "hadoop")
    spark.conf.set("spark.sql.catalog.killed.warehouse", str(tmp_path / "ice"))
    spark.conf.set("spark.sql.catalog.killed.cache-enabled", "false")
    places = {name: source_of(tmp_path / name, name).replace("ice.", "killed.") for name in NAMES}
    for values in (range(20), range(20, 40)):
        for name in NAMES:
            writer = numbers(spark, values).write.mode("append")
            if name == "iceberg":
                writer.format("iceberg").saveAsTable(places[name])
            else:
                writer.format("delta").save(places[name])
    spark.createDataFrame([], COUNTS).write.format("delta").save(str(tmp_path / "merge" / "out"))

    def life(points: str, *jobs: str, number: str = "first") -> int:
        return driver_jvm.run(DRIVER, tmp_path, number, *jobs, **{VARIABLE: points}).returncode

    between = "sink-after-function=kill"
    assert life("backlog-epoch-applied=kill", "append") == KILLED
    assert life("checkpoint-before-metadata=kill", "append") == KILLED
    assert life(between, "append") == KILLED
    assert life(between, "iceberg") == KILLED
    assert life(between, "complete") == KILLED
    assert life("", "merge") == KILLED and (tmp_path / "merge" / "died").exists()
    assert life(between, "merge") == KILLED
    assert life("epoch-before-apply=kill:3", *NAMES, number="second") == KILLED
    assert life("", *NAMES, number="third") == 0

    outs = {"append": f"{tmp_path}/append/out", "iceberg": "killed.db.out"}
    for name in outs:
        reader = spark.read.format("iceberg" if name == "iceberg" else "delta")
        out, read = (reader.load(place) for place in (outs[name], places[name]))
        values = [row[0] for row in read.select("value").collect()]
        assert set(values) >= {*range(40), *range(90, 100)}
        check_each_once([tuple(row) for row in out.select("key", "value", "number").collect()], values)
    for name in ("merge", "complete"):
        read = spark.read.format("delta").load(places[name])
        expected = read.groupBy("key").agg(F.count("*"), F.sum("value")).collect()
        out = spark.read.format("delta").load(f"{tmp_path}/{name}/out")
        assert sorted(map(tuple, out.collect())) == sorted(map(tuple, expected))
    assert (tmp_path / "append" / "out" / "key=k0").is_dir()
