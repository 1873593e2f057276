"""``foreach`` and ``foreachBatch`` as test_streaming_foreach.py and test_streaming_foreach_batch.py of Spark have them:
what stock calls and writes, mixedmode does, as a stream and of a history."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from two_ways import STREAM

from . import sink_functions as given

pytestmark = pytest.mark.slow
WAYS = ("stock", "stream", "history")
VALUES = ["hello", "this", "is", "this"]
_SCHEMA = "value string"


@dataclass
class Ways:
    """One file of rows, which stock and the stream read live, and which is the history of the third way."""

    spark: SparkSession
    folder: Path

    def writer(self, way: str) -> Any:
        """The writer of the rows as they are, with a checkpoint location of its own."""
        rows, nothing = str(self.folder / "rows"), str(self.folder / "nothing")
        source = self.spark.readStream.schema(_SCHEMA)
        if way == "history":
            read = self.spark.read.schema(_SCHEMA).parquet(rows)
            frame: Any = mixedmode.read(history=read, live=source.parquet(nothing))
        else:
            frame = source.parquet(rows) if way == "stock" else mixedmode.read(live=source.parquet(rows))
        writer = frame.writeStream.option("checkpointLocation", str(self.folder / f"checkpoints-{way}"))
        return writer.options(**(STREAM if way == "stream" else {})).trigger(availableNow=True)


@pytest.fixture
def ways(spark: SparkSession, folder: Path) -> Ways:
    for name in ("rows", "nothing"):
        (folder / name).mkdir()
    pq.write_table(pa.table({"value": VALUES}), folder / "rows" / "0.parquet")
    return Ways(spark, folder)


def run(writer: Any) -> None:
    query = writer.start()
    query.awaitTermination(300)


@pytest.mark.parametrize(
    "made",
    [
        given.simple,
        given.Whole,
        given.Unopened,
        given.OnlyProcess,
    ],
    ids=lambda made: made.__name__,
)
def test_foreach_makes_the_calls_of_stock(ways: Ways, made: Callable[[Path], Any]) -> None:
    found = {}
    for way in WAYS:
        (calls := ways.folder / f"calls-{way}").mkdir()
        run(ways.writer(way).foreach(made(calls)))
        found[way] = given.events(calls)
    assert found["stream"] == found["history"] == found["stock"]
    assert len(found["stock"][0]) == (0 if made is given.Unopened else len(VALUES))


@pytest.mark.parametrize("way", WAYS)
def test_foreach_that_raises_fails_the_query_and_is_closed_with_the_error(ways: Ways, way: str) -> None:
    (calls := ways.folder / "calls").mkdir()
    with pytest.raises(Exception, match="this row cannot be written"):
        run(ways.writer(way).foreach(given.Raising(calls)))
    rows, others = given.events(calls)
    assert not rows
    assert others == {"close this row cannot be written"}


@pytest.mark.parametrize(
    "made",
    [given.NoProcess, given.ProcessIsNoMethod, given.OpenIsNoMethod, given.CloseIsNoMethod],
    ids=lambda made: made.__name__,
)
def test_foreach_refuses_the_writers_that_stock_refuses(ways: Ways, made: Callable[[], Any]) -> None:
    for way in WAYS:
        with pytest.raises(Exception, match=r"process|open|close"):
            run(ways.writer(way).foreach(made()))


def test_foreach_batch_writes_what_stock_writes(spark: SparkSession, ways: Ways) -> None:
    """All functions within one, each into a folder of its own."""
    functions = (
        given.appended,
        given.by_view,
        given.beside_made_rows,
        given.beside_read_rows,
        given.calling_functions,
        given.with_module,
        partial(given.with_column_from_outside, column=F.col("value")),
    )
    found = {}
    for way in WAYS:
        outs = [str(ways.folder / f"out-{way}-{place}") for place in range(len(functions))]

        def write(frame: DataFrame, number: int, outs: list[str] = outs) -> None:
            for function, out in zip(functions, outs, strict=True):
                function(frame, out, number)

        run(ways.writer(way).foreachBatch(write))
        found[way] = [sorted(row.value for row in spark.read.parquet(out).collect()) for out in outs]
    assert found["stream"] == found["history"] == found["stock"]


@pytest.mark.parametrize("way", WAYS)
def test_foreach_batch_that_raises_fails_the_query_with_its_message(ways: Ways, way: str) -> None:
    def fail(frame: DataFrame, number: int) -> None:
        raise RuntimeError("this should fail the query")

    with pytest.raises(Exception, match="this should fail the query"):
        run(ways.writer(way).foreachBatch(fail))


@pytest.mark.parametrize("way", WAYS)
def test_query_that_is_stopped_in_foreach_batch_has_no_exception(ways: Ways, way: str) -> None:
    called, ended = threading.Event(), threading.Event()

    def wait(frame: DataFrame, number: int) -> None:
        called.set()
        ended.wait(0.5)  # it is in hand when it is stopped, which waits for it

    query = ways.writer(way).foreachBatch(wait).start()
    assert called.wait(120), query.exception()
    query.stop()
    ended.set()
    assert query.exception() is None
