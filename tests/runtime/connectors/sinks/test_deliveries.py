"""A delivery holds what its staged files say: of each key the last row, or all rows with their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.connectors.sinks import Deliveries, Sink, SinkSpec, make_sink
from mixedmode.runtime.connectors.staged_output import StagedOutput
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.staging_folder import StagingFolder
from mixedmode.runtime.connectors.transaction import SinkTransaction
from mixedmode.runtime.operators.processor.rows.row_writer import RowWriter
from pyarrow import fs
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

ODD_KEYS = "`x``y` double, s struct<d:double, t:array<string>>, _metadata string, epoch long"
NAN = math.nan


def sink_of(
    schema: StructType, take: Callable[[DataFrame, int], None] | None, deliveries: Deliveries, format: str = "csv"
) -> Sink:
    return make_sink(SinkSpec(schema, format, path="out", query_name="q", foreach_batch=take, deliveries=deliveries))


class Deliverer:
    """A foreachBatch sink, and the rows of each of its calls."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str, deliveries: Deliveries) -> None:
        self.schema = StructType.fromDDL(schema)
        self.calls: list[list[Row]] = []
        self.plans: list[str] = []
        self.sink = sink_of(self.schema, self._take, deliveries)
        self.sink.open(spark, StagingFolder(fs.LocalFileSystem(), str(folder / "staging")), "job-1")
        self.folder = folder / "staging"

    def _take(self, rows: DataFrame, number: int) -> None:
        assert rows.schema.names == self.sink.schema.names
        self.calls.append(rows.collect())
        self.plans.append(rows._jdf.queryExecution().toString())

    def stage(self, epoch: int, shard: int, *rows: Sequence[Any]) -> StagedFile:
        """A file as a task leaves it; an epoch may be of any shard."""
        writer = RowWriter(self.schema)
        name = f"e{epoch:08d}-s{shard:04d}-run-{epoch}"
        output = StagedOutput(fs.LocalFileSystem(), str(self.folder), name, writer.arrow_schema, self.schema.json())
        output.write(writer.batch(list(zip(*rows, strict=True)), lambda row: row))
        (file,) = output.finish()
        return file

    def deliver(self, *files: StagedFile) -> list[Row]:
        named = tuple(files)
        # As a crash right before the marker would leave it: the files are still there, and the call is made again.
        kept = {file.name: (self.folder / file.name).read_bytes() for file in files}
        for _ in range(2):
            self.sink.commit(SinkTransaction(id=7, files=named))
            for marker in self.folder.glob("delivered-*"):
                marker.unlink()
            for name, content in kept.items():
                (self.folder / name).write_bytes(content)
        first, again = self.calls[-2:]
        assert sorted(map(repr, first)) == sorted(map(repr, again)), "the same id comes with the same rows"
        return first


@pytest.mark.slow
def test_a_key_that_several_epochs_touched_comes_once_with_its_last_row(spark: SparkSession, tmp_path: Path) -> None:
    """Null, NaN, both zeros and nested values are keys as Spark groups them; files need not come in order of epochs."""
    given = Deliverer(spark, tmp_path, f"{ODD_KEYS}, n long", Deliveries(("x`y", "s", "_metadata")))
    one, other = (0.0, (NAN, ["a", None]), None, 1), (None, None, "m", 1)

    rows = given.deliver(
        given.stage(10, 1, (*one, 100), (*other, 100)),
        given.stage(9, 1, (-0.0, (-NAN, ["a", None]), None, 1, 99), (NAN, None, "m", 1, 99)),
        given.stage(11, 0, (1.5, None, None, 1, 11)),
        given.stage(2, 1, (*one, 2), (*other, 2), (0.0, (NAN, ["a"]), None, 1, 2)),
    )

    assert sorted(row.n for row in rows) == [2, 11, 99, 100, 100]
    assert {row.n for row in rows if row["x`y"] == 0 and row.s.t == ["a", None]} == {100}


def test_a_delivery_of_one_epoch_is_handed_over_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """A backlog is one epoch, whose rows are of distinct keys already: Spark has nothing to compare."""
    given = Deliverer(spark, tmp_path, "k string, n long", Deliveries(("k",)))

    assert sorted(given.deliver(given.stage(1, 0, ("a", 1)), given.stage(1, 1, ("b", 2)))) == [("a", 1), ("b", 2)]
    assert "Window" not in given.plans[-1]
    assert given.deliver(given.stage(2, 0, ("a", 3)), given.stage(3, 0, ("a", 4))) == [("a", 4)]
    assert "Window" in given.plans[-1]


def test_a_stage_without_a_key_has_one_row(spark: SparkSession, tmp_path: Path) -> None:
    """The total of everything is the last one."""
    given = Deliverer(spark, tmp_path, "n long", Deliveries((), "nth"))

    (row,) = given.deliver(*[given.stage(epoch, epoch % 2, (epoch,)) for epoch in (3, 12, 4)])

    assert row.n == 12


def test_the_order_column_is_greater_in_a_later_row_of_a_key(spark: SparkSession, tmp_path: Path) -> None:
    """By epoch, then by place in the shard's output; also beside the last rows of keys, and over many epochs."""
    given = Deliverer(spark, tmp_path, "k string, n long", Deliveries(order_column="the nth"))
    kept = Deliverer(spark, tmp_path / "kept", "k string, n long", Deliveries(("k",), "epoch"))

    rows = given.deliver(
        given.stage(100, 1, ("b", 5)),
        given.stage(9, 0, ("a", 1), ("a", 2), ("b", 1)),
        given.stage(10, 0, ("a", 3), ("a", 4)),
    )
    last = kept.deliver(kept.stage(1, 0, ("b", 1), ("a", 1)), kept.stage(99_999_999, 0, ("a", 2)))

    for key, expected in (("a", [1, 2, 3, 4]), ("b", [1, 5])):
        assert [row.n for row in sorted(rows, key=lambda row: row["the nth"]) if row.k == key] == expected
    assert [row.n for row in sorted(last, key=lambda row: row.epoch)] == [1, 2]


@pytest.mark.parametrize("format", ["parquet", "memory", "console", "noop"])
def test_an_order_column_is_for_sinks_that_get_deliveries(format: str) -> None:
    """The error names option, value and what is allowed."""
    with pytest.raises(OptionError, match=rf"order-column = 'nth' does not go with format {format}.*foreachBatch"):
        sink_of(StructType().add("k", "string"), None, Deliveries(order_column="nth"), format)


def test_an_order_column_is_a_new_column() -> None:
    """A name that the output has, in whatever case, is refused with the columns that there are."""
    schema = StructType().add("k", "string").add("n", "long")

    with pytest.raises(OptionError, match=r"order-column = 'N' is a column of the output already.*k, n"):
        sink_of(schema, lambda rows, number: None, Deliveries(order_column="N"))
    assert sink_of(schema, None, Deliveries(order_column="m")).schema.names == ["k", "n", "m"]
