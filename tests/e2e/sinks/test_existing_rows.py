"""A job that begins at an output with rows refuses, adds to or replaces them; those of its own it never doubles."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mixedmode
import pytest
from failing import fail_at
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support import refusal


class Outputs:
    """Jobs that write to one folder; each start has a checkpointLocation of its own unless one is given."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.out = spark, folder, folder / "out"
        self._starts = 0

    def writer(self, rows: str = "('a', 1), ('b', 2)", name: str | None = "totals", at: str | None = None) -> Any:
        self._starts += 1
        frame = self.spark.sql(f"select * from values {rows} as t(k, n)")
        keyed = mixedmode.read(history=frame).groupBy("k").agg(F.sum("n").alias("n"))
        writer = keyed.writeStream.option("path", str(self.out)).option("execution.runtime-mode", "batch")
        location = self.folder / (at or f"checkpoints-{self._starts}")
        writer.option("checkpointLocation", str(location)).option("pipeline.parallelism", 1)
        return writer if name is None else writer.queryName(name)

    def run(self, writer: Any) -> None:
        writer.start().awaitTermination()

    def rows(self, format: str = "parquet") -> list[tuple[Any, ...]]:
        found = self.spark.read.schema("k string, n long").format(format).load(str(self.out))
        return sorted(map(tuple, found.collect()))


@pytest.fixture
def outputs(spark: SparkSession, tmp_path: Path) -> Outputs:
    return Outputs(spark, tmp_path)


@pytest.mark.parametrize("format", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_own_rows_are_not_written_twice(outputs: Outputs, format: str, caplog: pytest.LogCaptureFixture) -> None:
    """A new checkpointLocation with the rows of the same job is refused; append adds, replace leaves the new ones."""
    outputs.run(outputs.writer(at="first").format(format))
    error = refusal(outputs.writer("('c', 3)").format(format).start)
    assert error.code == "MIXEDMODE_OUTPUT_EXISTS"
    first, rest = str(error).split("\n", 1)
    assert first == f"path = '{outputs.out}' holds rows of this job, and checkpointLocation is new"
    assert f"'{outputs.folder / 'first'}'" in rest and "execution.sink.existing = replace" in rest
    outputs.run(outputs.writer("('c', 3)").format(format).option("execution.sink.existing", "append"))
    assert outputs.rows(format) == [("a", 1), ("b", 2), ("c", 3)]
    outputs.run(outputs.writer("('d', 4)", at="new").format(format).option("execution.sink.existing", "replace"))
    assert outputs.rows(format) == [("d", 4)]
    # Its own location goes on, whatever the option says, and the rows are known to be its own.
    outputs.run(outputs.writer("('d', 4)", at="new").format(format).option("execution.sink.existing", "replace"))
    assert outputs.rows(format) == [("d", 4)]
    assert refusal(outputs.writer("('e', 5)").format(format).start).code == "MIXEDMODE_OUTPUT_EXISTS"


def test_rows_of_others_stay(outputs: Outputs, caplog: pytest.LogCaptureFixture) -> None:
    """Another query, and rows that nobody knows, are added to, with a warning that names them and the option."""
    outputs.spark.sql("select 'x' as k, 0L as n").write.parquet(str(outputs.out))
    with caplog.at_level(logging.WARNING, "mixedmode"):
        outputs.run(outputs.writer())
        outputs.run(outputs.writer(name="others"))
    said = [record.getMessage() for record in caplog.records if "appends to path" in record.getMessage()]
    assert len(said) == 2
    assert said[0].startswith(f"query totals appends to path = '{outputs.out}', which holds rows of others")
    assert said[1].startswith(
        f"query others appends to path = '{outputs.out}', which holds rows of other jobs ('totals')"
    )
    assert all("execution.sink.existing = replace" in one for one in said)
    assert outputs.rows() == [("a", 1), ("a", 1), ("b", 2), ("b", 2), ("x", 0)]


@pytest.mark.slow
def test_jobs_without_a_name_are_told_by_what_they_read(outputs: Outputs, spark: SparkSession) -> None:
    """The same description over another folder is another job, over the same folder it is this one."""
    for name in ("eu", "us"):
        spark.sql("select 'a' as k, 1 as n").write.parquet(str(outputs.folder / name))

    def writer(region: str) -> Any:
        frame = spark.read.parquet(str(outputs.folder / region))
        keyed = mixedmode.read(history=frame).groupBy("k").agg(F.sum("n").alias("n"))
        given = outputs.writer(name=None)
        keyed_writer = keyed.writeStream
        keyed_writer._explicit = given._explicit
        return keyed_writer

    outputs.run(writer("eu"))
    outputs.run(writer("us"))
    assert refusal(writer("eu").start).code == "MIXEDMODE_OUTPUT_EXISTS"
    assert outputs.rows() == [("a", 1), ("a", 1)]


def test_nothing_is_lost_before_the_first_commit(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """A run that fails before its commit, or in it, has removed nothing that its restart does not replace."""
    outputs.run(outputs.writer())
    replacing = {"execution.sink.existing": "replace"}
    fail_at(monkeypatch, "checkpoint-after-metadata=raise")
    with pytest.raises(mixedmode.QueryError):
        outputs.run(outputs.writer("('c', 3)", at="again").options(**replacing))
    assert outputs.rows() == [("a", 1), ("b", 2)]
    fail_at(monkeypatch, "sink-before-replacing=raise")
    with pytest.raises(mixedmode.QueryError):
        outputs.run(outputs.writer("('c', 3)", at="again").options(**replacing))
    assert outputs.rows() == [("a", 1), ("b", 2), ("c", 3)]
    fail_at(monkeypatch, "")
    outputs.run(outputs.writer("('c', 3)", at="again"))  # the option is not needed any more
    assert outputs.rows() == [("c", 3)]


@pytest.mark.parametrize("format", ["json", pytest.param("parquet", marks=pytest.mark.slow)])
def test_a_result_without_rows_replaces_too(outputs: Outputs, format: str) -> None:
    """The first commit removes the old rows although it has none of its own; partitions go with them."""
    outputs.run(outputs.writer().partitionBy("k").format(format))
    empty = outputs.writer("('c', 3)").partitionBy("k").format(format).option("execution.sink.existing", "replace")
    empty._output = (
        mixedmode.read(history=outputs.spark.sql("select 'a' as k, 1 as n where false"))
        .groupBy("k")
        .agg(F.sum("n").alias("n"))
        .writeStream._output
    )
    outputs.run(empty)
    assert outputs.rows(format) == []


def test_where_it_cannot_be_done(outputs: Outputs) -> None:
    """Outputs that cannot be overwritten, and a savepoint, do not go with replace."""
    for writer in (
        outputs.writer().format("console"),
        outputs.writer().foreachBatch(print),
        outputs.writer().option("execution.savepoint.path", "sp"),
    ):
        error = refusal(writer.option("execution.sink.existing", "replace").start)
        assert error.code == "MIXEDMODE_OPTION_CONFLICT" and "execution.sink.existing" in str(error)
    inside = outputs.writer(at="out/_checkpoints").option("execution.sink.existing", "replace")
    assert refusal(inside.start).code == "MIXEDMODE_LOCATION_SHARED"


def test_what_is_removed(outputs: Outputs) -> None:
    """Files that readers take for rows, and nothing else that somebody keeps in the folder."""
    kept = ["sub/notes.txt", "_mixedmode/other/staged.parquet", "_SUCCESS"]
    for name in (*kept, "part-old.parquet"):
        (outputs.out / name).parent.mkdir(parents=True, exist_ok=True)
        (outputs.out / name).touch()
    outputs.run(outputs.writer().option("execution.sink.existing", "replace"))
    assert all((outputs.out / name).exists() for name in kept) and not (outputs.out / "part-old.parquet").exists()
    assert outputs.rows() == [("a", 1), ("b", 2)]
