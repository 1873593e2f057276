"""Delta and Iceberg tables as sinks: each transaction once, and what does not fit is told before there is a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mixedmode
import pytest
import support
from driver_jvm import DriverJvm
from lake_support import append, numbers
from mixedmode import MixedModeError, OptionError, PlanError, delta, iceberg
from mixedmode.runtime.connectors.sinks.deliveries import Deliveries, WholeResult
from mixedmode.runtime.connectors.sinks.spark_writer import SparkWriterSink
from mixedmode.runtime.connectors.staging_folder import StagingFolder
from mixedmode.runtime.connectors.transaction import SinkTransaction
from pyarrow import fs
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from support import World

COLUMNS = "key string, ts timestamp, value long"


def opened(spark: Any, folder: Path, format: str, place: dict[str, str], **more: Any) -> SparkWriterSink:
    sink = SparkWriterSink(StructType.fromDDL(COLUMNS), format, **place, **more)
    sink.check(spark)
    sink.open(spark, StagingFolder(fs.LocalFileSystem(), str(folder / "staging")), "job-1")
    return sink


def taken(number: int) -> SinkTransaction:
    """A checkpoint's transaction."""
    return SinkTransaction(id=number, token=f"token-{number}", ordinal=1_700_000_000_000 + number)


def values_of(spark: Any, format: str, place: dict[str, str]) -> list[int]:
    rows = spark.table(place["table"]) if "table" in place else spark.read.format(format).load(place["path"])
    return sorted(row[0] for row in rows.select("value").collect())


@pytest.mark.parametrize(
    ("format", "place"),
    [
        ("delta", {"path": "{folder}/table"}),
        ("delta", {"table": "sink_{name}"}),
        ("iceberg", {"table": "ice.db.sink_{name}"}),
        ("iceberg", {"path": "ice.db.sink_path_{name}"}),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_transaction_that_comes_again_is_skipped(
    spark: Any, tmp_path: Path, format: str, place: dict[str, str], whole: bool
) -> None:
    """Handed over twice it is there once; the next one is added, or takes its place; layout and properties stay."""
    place = {what: text.format(folder=tmp_path, name=f"{format}_{whole}") for what, text in place.items()}
    deliveries = Deliveries(whole=WholeResult()) if whole else None
    if "ice.db.sink_path" in str(place):  # by its path an Iceberg table is not made
        numbers(spark, []).writeTo(place["path"]).using("iceberg").partitionedBy(F.col("key")).create()
    sink = opened(spark, tmp_path, format, place, partition_by=["key"], deliveries=deliveries)
    assert sink.guarantee == "exactly-once" and "exactly-once by" in sink.describe()
    for number, values in ((1, range(4)), (1, range(4)), (2, range(4, 7)), (2, range(4, 7)), (1, range(4))):
        sink.hand_over(numbers(spark, values), taken(number))
    assert values_of(spark, format, place) == ([4, 5, 6] if whole else [*range(7)])
    if place.get("table", "").startswith("sink"):
        (described,) = spark.sql(f"DESCRIBE DETAIL {place['table']}").collect()
        assert described.partitionColumns == ["key"]
    other = SparkWriterSink(StructType.fromDDL(COLUMNS), format, **place, deliveries=deliveries)
    other.open(spark, StagingFolder(fs.LocalFileSystem(), str(tmp_path / "staging")), "job-2")
    other.hand_over(numbers(spark, [9]), taken(1))
    assert values_of(spark, format, place) == ([9] if whole else [*range(7), 9])


def test_a_table_of_the_schema_in_use(spark: Any, tmp_path: Path) -> None:
    """Named without its schema, an Iceberg table has each transaction once, too; and can be read."""
    spark.sql("USE ice.db")
    try:
        for number, by in enumerate(("table", "path")):
            sink = opened(spark, tmp_path, "iceberg", {by: "in_use"})
            for _ in range(2):
                sink.hand_over(numbers(spark, range(3)), taken(number))
        assert values_of(spark, "iceberg", {"table": "in_use"}) == [0, 0, 1, 1, 2, 2]
        assert "behind snapshot" in iceberg.read(spark, "in_use")._inputs.parts[1].seam.text
    finally:
        spark.sql("USE spark_catalog.default")


def test_what_does_not_fit_a_table_is_refused_by_start(spark: Any, tmp_path: Path) -> None:
    """Columns, types and layout are compared with the table's, before there is a row."""
    path = str(tmp_path / "table")
    append(spark, path, range(3))
    for table, columns, format in (
        ("refuses", "key string, ts timestamp, value int", "delta PARTITIONED BY (key)"),
        ("ice.db.refuses", "key string, value bigint", "iceberg PARTITIONED BY (key)"),
        ("plain_refuses", "key string, ts timestamp, value bigint", "parquet"),
    ):
        spark.sql(f"CREATE TABLE {table} ({columns}) USING {format}")
    ddl = "key string, ts timestamp, value {}"
    cases: list[tuple[SparkWriterSink, type[MixedModeError], str]] = [
        (sink(f"{ddl.format('long')}, more int", "delta", path=path), PlanError, "not the output's more"),
        (
            sink(ddl.format("int"), "delta", path=path),
            PlanError,
            "type bigint, the output's of type int",
        ),
        (sink(ddl.format("string"), "delta", path=path), PlanError, "column value"),
        (sink(ddl.format("long"), "delta", path=path, by=["key"]), OptionError, "partitionBy is key, but .* not parti"),
        (sink(ddl.format("string"), "delta", table="refuses"), PlanError, "column value"),
        (sink(ddl.format("int"), "delta", table="refuses", by=["ts"]), OptionError, "partitioned by key"),
        (sink(ddl.format("long"), "delta", table="plain_refuses"), OptionError, "is of format parquet"),
        (sink(ddl.format("long"), "csv", table="refuses"), OptionError, "is of format delta"),
        (sink(ddl.format("long"), "iceberg", table="ice.db.refuses"), PlanError, "not the output's ts"),
        (sink("key string, value string", "iceberg", table="ice.db.refuses"), PlanError, "column value"),
        (sink("key string, value long", "iceberg", table="ice.db.refuses", by=["value"]), OptionError, "by key"),
        (sink("`a b` string", "delta", path=f"{path}-new"), PlanError, "cannot have a column called 'a b'"),
        (sink("key string", "delta", path=f"{path}-new", by=["key"]), OptionError, "needs another one beside"),
        (sink("i interval day", "delta", path=f"{path}-new"), PlanError, "no place for intervals"),
    ]
    for refused, error, text in cases:
        with pytest.raises(error, match=text):
            refused.check(spark)
    fitting = [
        sink(f"{ddl.format('long')}, more int", "delta", path=path, options={"mergeSchema": "true"}),
        sink("key string, value long", "delta", path=path),
        sink(ddl.format("int"), "delta", table="refuses", by=["key"]),
        sink(ddl.format("int"), "delta", table="refuses"),
        sink("key string, value int", "iceberg", table="ice.db.refuses", by=["key"]),
    ]
    for taken in fitting:
        taken.check(spark)


def sink(ddl: str, format: str, by: Any = (), **place: Any) -> SparkWriterSink:
    return SparkWriterSink(StructType.fromDDL(ddl), format, partition_by=by, **place)


def test_the_whole_result_overwrites_a_table(world: World) -> None:
    """In complete mode each checkpoint is one overwrite: readers see one result or the next, never parts of both."""
    spark, source, out = world.spark, world.folder / "source", str(world.folder / "out")
    append(spark, source, range(20))
    counts = delta.read(spark, source).groupBy("key").agg(F.count("*").alias("rows"))
    writer = counts.writeStream.outputMode("complete").format("delta")
    query = writer.option("checkpointLocation", str(world.checkpoints)).start(out)
    world.queries.append(query)
    support.live(query)
    append(spark, source, range(20, 30))
    query.processAllAvailable()
    history = spark.sql(f"DESCRIBE HISTORY delta.`{out}`").select("operation", "operationParameters.mode").collect()
    assert {row.mode for row in history} == {"Overwrite"} and len(history) == 2
    found = {row.key: row.rows for row in spark.read.format("delta").load(out).collect()}
    assert found == {f"k{number}": 6 for number in range(5)}
    with pytest.raises(PlanError, match="format delta supports outputMode append and complete only, got update"):
        counts.writeStream.outputMode("update").format("delta").option("checkpointLocation", "x").start(out)


def test_the_example_of_an_upsert(driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """It merges each change once, though the answer to a MERGE is lost."""
    example = Path(mixedmode.__file__).parent / "examples" / "upsert_into_delta.py"
    done = driver_jvm.run(example, as_users_do=True, TMPDIR=str(tmp_path))
    assert "a customer's total has changed up to 2 times" in done.stdout
    assert "EQUAL to one batch over everything: 70 customers" in done.stdout and "the query has failed" in done.stdout


def test_delta_takes_each_call_of_a_job_that_the_version_before_began(world: World) -> None:
    """Delta skips the versions that it has seen: none of those that today's calls have, whether it has seen the last
    call of the version before, which is made again, or not."""
    support.old_location(world)
    tables = {name: str(world.folder / name) for name in ("killed_before", "killed_after")}
    before = [support.counts_after(*range(last)) for last in range(1, 8)]
    first = {1: before[0], 2: [*before[1], *before[2], *before[3]], 3: before[4], 4: [*before[5], *before[6]]}

    def append_once(rows: Any, table: str, number: int) -> None:
        rows.write.format("delta").mode("append").option("txnAppId", "counts").option("txnVersion", number).save(table)

    for number, rows in first.items():
        frame = world.spark.createDataFrame(rows, "key string, rows long, total long")
        for name, table in tables.items():
            if number < 4 or name == "killed_after":
                append_once(frame, table, number)

    def take(rows: Any, number: int) -> None:
        for table in tables.values():
            append_once(rows, table, number)

    writer = support.counts(world.live(maxFilesPerTrigger="1", maxFileAge="36500d")).writeStream.foreachBatch(take)
    options = {"execution.checkpointing.interval": "1 hour", "pipeline.parallelism": 2}
    query = writer.options(checkpointLocation=str(world.checkpoints), **options).start()
    world.queries.append(query)
    support.live(query)
    world.land(*map(support.counted, (7, 8)))
    support.finish(query)
    expected = sorted(row for last in range(1, 10) for row in support.counts_after(*range(last)))
    for name, table in tables.items():
        assert sorted(map(tuple, world.spark.read.format("delta").load(table).collect())) == expected, name


def test_a_processors_updates_are_merged_by_key(world: World) -> None:
    """Three epochs of one checkpoint are three calls: Delta's MERGE refuses a source that has a key twice."""
    table = str(world.folder / "merged")
    world.spark.createDataFrame([], "key string, rows long, total long").write.format("delta").save(table)

    def merge(rows: Any, number: int) -> None:
        rows.createOrReplaceTempView("counted")
        rows.sparkSession.sql(
            f"MERGE INTO delta.`{table}` t USING counted s ON t.key = s.key"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    writer = support.counts(world.live(maxFilesPerTrigger="1")).writeStream.foreachBatch(merge)
    options = {"execution.checkpointing.interval": "1 hour", "pipeline.parallelism": 2}
    query = writer.options(checkpointLocation=str(world.checkpoints), **options).start()
    world.queries.append(query)
    support.live(query)
    world.feed(query, support.counted(0))
    world.land(*map(support.counted, (1, 2, 3)))
    support.finish(query)
    found = world.spark.read.format("delta").load(table).collect()
    assert sorted(map(tuple, found)) == support.counts_after(0, 1, 2, 3)
