"""Numbers of files, and of the messages of Kafka, by which the rows of a history are put in order."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.operators.arrival_order import in_one_order
from mixedmode.runtime.spark_io import file_rows
from mixedmode.runtime.spark_io.file_numbers import _tables, file_number
from mixedmode.runtime.spark_io.file_rows import ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN, of_kafka, with_file_rows
from pyspark.sql import SparkSession


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=300, unique_by=lambda code: code >> 32))
def test_each_hash_leads_to_its_place(hashes: list[int]) -> None:
    tables = _tables(hashes)
    assert tables is not None
    starts, sizes, numbers = tables
    found = []
    for code in hashes:
        first = code % len(hashes)
        found.append(numbers[starts[first] + (code >> 32) % sizes[first]])
    assert found == list(range(len(hashes)))


def test_hashes_that_are_one_have_no_tables() -> None:
    """Nobody could tell their files apart."""
    assert _tables([5, 5, 7]) is None


def test_files_of_different_times_need_no_table(spark: SparkSession) -> None:
    """Their time is their number."""
    assert file_number(spark, [(1, "a"), (2, "b")]) == "unix_millis(_metadata.file_modification_time)"
    assert "xxhash64" in str(file_number(spark, [(1, "a"), (1, "b")]))


def test_the_order_takes_sixteen_bytes_of_a_row(spark: SparkSession, tmp_path: object) -> None:
    """Two whole numbers, however long the paths of the files are."""
    folder = f"{tmp_path}/{'long' * 30}"
    spark.range(100).repartition(5).write.parquet(folder)
    frame = spark.read.parquet(folder)
    read = with_file_rows([frame])
    assert read is not None
    (ordered,) = in_one_order(read, [frame])
    assert dict(ordered.drop("id").dtypes) == {ARRIVAL_FILE_COLUMN: "bigint", ARRIVAL_PLACE_COLUMN: "bigint"}
    assert ordered.select(ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN).distinct().count() == 100


def test_a_frame_is_given_its_columns_once(
    spark: SparkSession, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start asks for them three times; another frame of the same files has its own, as there may be new ones."""
    spark.range(10).write.parquet(f"{tmp_path}/rows")
    made: list[object] = []
    of = file_rows._Numbering.of
    monkeypatch.setattr(file_rows._Numbering, "of", lambda self, node: made.append(node) or of(self, node))
    frame = spark.read.parquet(f"{tmp_path}/rows")
    first, again = with_file_rows([frame]), with_file_rows([frame])
    assert file_rows.has_file_rows(frame)
    assert len(made) == 1
    assert first is not None
    assert again is not None
    assert first[0] is again[0]
    spark.range(5).write.mode("append").parquet(f"{tmp_path}/rows")
    (more,) = with_file_rows([spark.read.parquet(f"{tmp_path}/rows")]) or ()
    assert more.count() == 15


def test_messages_go_by_the_greatest_timestamp_so_far_and_never_against_their_offsets(spark: SparkSession) -> None:
    """A message whose timestamp is behind those before it in its partition comes right after them."""
    chance = random.Random(4)
    rows = [("t", part, offset, chance.randint(0, 400) / 10) for part in range(3) for offset in range(80)]
    chance.shuffle(rows)
    frame = spark.createDataFrame(rows, "topic string, partition int, offset bigint, at double").repartition(5)
    messages = frame.selectExpr("*", "timestamp_millis(CAST(1.7e12 + at * 1000 AS BIGINT)) AS timestamp")
    file, place = of_kafka()
    numbered = messages.selectExpr("*", f"{file} AS {ARRIVAL_FILE_COLUMN}", f"{place} AS {ARRIVAL_PLACE_COLUMN}")
    (ordered,) = in_one_order([numbered], [numbered])
    found = ordered.orderBy(ARRIVAL_FILE_COLUMN, ARRIVAL_PLACE_COLUMN).collect()
    greatest: dict[int, float] = {}
    reached = []
    for row in found:
        greatest[row.partition] = max(greatest.get(row.partition, 0), row["at"])
        reached.append(greatest[row.partition])
    for part in range(3):
        assert [row.offset for row in found if row.partition == part] == list(range(80))
    assert all(one <= other for one, other in pairwise(reached))
