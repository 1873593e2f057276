"""Few staged messages are read on the driver, as Spark would read them, and sent in the order of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.connectors.sinks.deliveries import Deliveries
from mixedmode.runtime.connectors.sinks.kafka import few_messages as module
from mixedmode.runtime.connectors.sinks.kafka.few_messages import few_messages
from mixedmode.runtime.connectors.sinks.spark_writer import SparkWriterSink
from mixedmode.runtime.connectors.staged_output import StagedOutput
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.staging_folder import StagingFolder
from mixedmode.runtime.connectors.transaction import SinkTransaction
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, DateType, IntegerType, StringType, StructField, StructType

SCHEMA = (
    StructType()
    .add("key", StringType())
    .add("value", BinaryType(), nullable=False)
    .add("partition", IntegerType())
)  # fmt: skip


@pytest.fixture
def staging(tmp_path: Path) -> StagingFolder:
    return StagingFolder(fs.LocalFileSystem(), str(tmp_path / "staging"))


def staged(staging: StagingFolder, epoch: int, *values: bytes, schema: StructType = SCHEMA) -> StagedFile:
    """A file of an epoch; every other key is null."""
    output = StagedOutput(
        staging.filesystem, staging.path, f"e{epoch:08d}-s0000-a", arrow_schema(schema), schema.json()
    )
    keys = [None if number % 2 else f"ß{number}" for number in range(len(values))]
    columns = [pa.array(keys), pa.array(values, pa.binary()), pa.array([epoch] * len(values), pa.int32())]
    output.write(pa.RecordBatch.from_arrays(columns[: len(schema)], schema=arrow_schema(schema)))
    (file,) = output.finish()
    return file


def test_rows_are_those_that_spark_reads(spark: SparkSession, staging: StagingFolder) -> None:
    """In one partition, file after file."""
    files = [staged(staging, epoch, b"\xff\x00", b"", b"%d" % epoch) for epoch in (2, 1, 3)]
    found = few_messages(spark, staging, SCHEMA, files)
    assert found is not None and found.rdd.getNumPartitions() == 1
    assert found.schema.simpleString() == SCHEMA.simpleString()
    one_by_one = [staging.frame(spark, SCHEMA, [file]).collect() for file in files]
    assert found.collect() == [row for rows in one_by_one for row in rows]


def test_many_rows_are_read_by_tasks(staging: StagingFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """And large ones, many files, and columns of types that are not the same everywhere."""
    spark: Any = None
    files = [staged(staging, 1, *[b"1234"] * 4), staged(staging, 2, *[b"1234"] * 4)]
    for limit, value in (("_MOST_ROWS", 7), ("_MOST_BYTES", 100), ("_MOST_FILES", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(module, limit, value)
            assert few_messages(spark, staging, SCHEMA, files) is None, limit
    assert few_messages(spark, staging, StructType([*SCHEMA, StructField("day", DateType())]), files) is None


@pytest.mark.parametrize(("epochs", "is_few"), [((1, 1), True), ((1, 2), False)])
def test_rows_that_replace_others_are_chosen_by_spark(
    staging: StagingFolder, monkeypatch: pytest.MonkeyPatch, epochs: tuple[int, int], is_few: bool
) -> None:
    """A key has one row in an epoch, and the last one counts of several epochs."""
    sent: list[Any] = []
    monkeypatch.setattr("mixedmode.runtime.connectors.sinks.spark_writer.few_messages", lambda *_: "few")
    monkeypatch.setattr(SparkWriterSink, "frame", lambda *_: "frame")
    monkeypatch.setattr("mixedmode.runtime.connectors.sinks.deliveries.Deliveries.rows", lambda *_: "chosen")
    monkeypatch.setattr(SparkWriterSink, "hand_over", lambda self, rows, _: sent.append(rows))
    sink = SparkWriterSink(SCHEMA, "kafka", options={"topic": "t"}, deliveries=Deliveries(key=("key",)))
    sink._spark = object()  # type: ignore[assignment]
    sink.staging = staging
    files = tuple(StagedFile(f"e{epoch:08d}-s000{n}-a.parquet", 1, 1) for n, epoch in enumerate(epochs))
    sink.hand_over_transaction(SinkTransaction(id=1, files=files))
    assert sent == ["few" if is_few else "chosen"]
