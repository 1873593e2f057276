"""Ways of joining two datasets, and queries of ours and of Spark's that join two streams, fed in turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mixedmode
from dataset import Dataset
from in_turn import OURS, STOCK, start, stream
from micro_batches import Feed, MicroBatches, live_run, watched
from pyspark.sql import DataFrame, SparkSession
from ways import PLAIN_FILES, STOCK_TEN, Way

MIXED_FILES = "mixed, to Parquet"
#: Joins two frames of ours or of Spark's.
Join = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class JoinWays:
    """Spark's plain batch join, ours with state and checkpoint, and stock streams, all written to Parquet files.

    Args:
        spark: the session.
        job: the join of both sides.
        left: the rows of one side.
        right: those of the other.
        stock_limit_s: after which stock is stopped, in seconds.
    """

    spark: SparkSession
    job: Join
    left: Dataset
    right: Dataset
    stock_limit_s: float

    def all(self) -> dict[str, Way]:
        """Every way by name, in the order of a round."""
        return {PLAIN_FILES: self.plain, MIXED_FILES: self.mixed, STOCK_TEN: self.stock_ten}

    def plain(self, folder: Path) -> None:
        """Spark's join of all files; no state, no checkpoint."""
        self.job(*self._read()).write.parquet(str(folder / "out"))

    def mixed(self, folder: Path) -> None:
        """All files as histories: one sorted pass, what may still meet a partner in the state, checkpoint complete."""
        left, right = (mixedmode.read(history=frame) for frame in self._read())
        query = self._writer(self.job(left, right), folder).trigger(availableNow=True).start()
        query.awaitTermination()

    def stock_ten(self, folder: Path) -> None:
        """Structured Streaming with its RocksDB state store, a micro-batch for each file of either side.

        It is stopped after ``stock_limit_s`` seconds: the time that it took is a lower bound then.
        """
        left, right = (stream(self.spark, one.shape, one.folder) for one in (self.left, self.right))
        query = self._writer(self.job(left, right), folder).trigger(availableNow=True).start()
        if query.awaitTermination(self.stock_limit_s):
            assert len(query.recentProgress) >= self.left.shape.files
        else:
            query.stop()

    def _read(self) -> tuple[DataFrame, ...]:
        sides = (self.left, self.right)
        return tuple(self.spark.read.schema(one.shape.ddl).parquet(*one.files) for one in sides)

    def _writer(self, joined: Any, folder: Path) -> Any:
        writer = joined.writeStream.format("parquet").outputMode("append").option("path", str(folder / "out"))
        return writer.option("checkpointLocation", str(folder / "checkpoints"))


@dataclass(frozen=True)
class _Fed:
    """A query that joins two landing folders."""

    batches: MicroBatches
    run_id: str
    feeds: tuple[Feed, Feed]

    def land(self, number: int) -> list[Any]:
        """One more file on each side; the micro-batches that it took, one, or two if Spark saw one file first.

        Args:
            number: of the file, from 0.
        """
        before = len(self.batches.of(self.run_id))
        for feed in self.feeds:
            feed.land()
        self.batches.wait_until(lambda: self._has_read(number), f"file {number} of both sides")
        return self.batches.of(self.run_id)[before:]

    def _has_read(self, number: int) -> bool:
        found = self.batches.of(self.run_id)
        return bool(found) and all(_position(source) >= number for source in found[-1].sources)


def _position(source: Any) -> int:
    """The last file of a source, which gives one a micro-batch."""
    offset = json.loads(source.endOffset) if source.endOffset else None
    return -1 if offset is None else int(offset["logOffset"])


def feed_sides(
    spark: SparkSession,
    job: Join,
    history: Dataset,
    left: Dataset,
    right: Dataset,
    bench: Any,
    same_log: bool = False,
) -> dict[str, list[list[Any]]]:
    """The micro-batches of each pair of files, of us and of stock: both hold the same rows and get the same in turn.

    Args:
        spark: the session.
        job: the join of both.
        history: the left side's rows that are in the state, in one file.
        left: what lands on the left, a file each.
        right: the same on the right; the first file lands before the clock starts.
        bench: where scratch folders come from.
        same_log: True: stock writes its log as our live query does, without starting processes.
    """
    with bench.scratch() as folder, watched(spark) as batches:
        places = {way: folder / way for way in (OURS, STOCK)}
        feeds = {
            OURS: (Feed(places[OURS] / "left-in", left.files), Feed(places[OURS] / "right-in", right.files)),
            STOCK: (
                Feed(places[STOCK] / "left-in", [*history.files, *left.files[1:]]),
                Feed(places[STOCK] / "right-in", right.files),
            ),
        }
        streams = {way: [stream(spark, left.shape, feed.folder) for feed in both] for way, both in feeds.items()}
        before = spark.read.schema(history.shape.ddl).parquet(*history.files)
        sides = mixedmode.read(history=before, live=streams[OURS][0]), mixedmode.read(live=streams[OURS][1])
        ours = start(job(*sides), places[OURS] / "checkpoints", False, "append")
        stock: Any = None
        try:
            assert ours.wait_for("live", 600), ours.exception()
            fed = {OURS: _Fed(batches, live_run(ours), feeds[OURS])}
            # What a watermark has made due waits for the next rows: a micro-batch without rows would disturb ours.
            spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
            log_as_ours = spark if same_log else None
            stock = start(job(*streams[STOCK]), places[STOCK] / "checkpoints", False, "append", log_as_ours)
            fed[STOCK] = _Fed(batches, str(stock.runId), feeds[STOCK])
            found: dict[str, list[list[Any]]] = {way: [] for way in fed}
            for number in range(len(right.files)):
                for way, one in fed.items():
                    found[way].append(one.land(number))
        finally:
            spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
            ours.stop()
            if stock is not None:
                stock.stop()
        return {way: each[1:] for way, each in found.items()}
