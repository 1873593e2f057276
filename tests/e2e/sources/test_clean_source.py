"""Files of a live source with ``cleanSource``: they go when a checkpoint holds their rows, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mixedmode
import support
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


class Job:
    """Counts of words over files of which each is a micro-batch.

    Args:
        spark: the session.
        folder: for all of it.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder, self.landing = spark, folder, folder / "in"
        self.landing.mkdir()
        self.counts: dict[str, int] = {}

    def land(self, name: str, words: str) -> None:
        (self._folder / name).write_text("\n".join(words.split()))
        (self._folder / name).rename(self.landing / name)

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.landing.iterdir()}

    def start(self) -> Any:
        reader = self._spark.readStream.format("text").option("cleanSource", "delete").option("maxFilesPerTrigger", 1)
        history = self._spark.createDataFrame([("a",), ("b",)], "value string")
        frame = mixedmode.read(history=history, live=reader.load(str(self.landing)))

        def take(rows: DataFrame, number: int) -> None:
            self.counts.update({row.value: row.n for row in rows.collect()})

        writer = frame.groupBy("value").agg(F.count("*").alias("n")).writeStream.outputMode("update")
        writer = writer.foreachBatch(take).option("checkpointLocation", str(self._folder / "checkpoints"))
        return writer.option("execution.checkpointing.interval", "1 hour").start()

    @property
    def committed(self) -> int:
        """How many micro-batches Spark's own query has behind it."""
        return len([path for path in self._folder.glob("checkpoints/**/commits/*") if path.name.isdigit()])


def test_live_files_stay_until_a_checkpoint_holds_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Then all go but those of the last micro-batch, which go with a later run. What Spark's query gives to its cleaner
    when that has been taken from it does no harm."""
    job = Job(spark, tmp_path)
    query = job.start()
    try:
        assert query.wait_for("live", 120), query.exception()
        before = job.committed
        for number, words in enumerate(("a c", "a", "b b")):
            job.land(f"{number}.txt", words)
            support.wait_until(lambda done=before + number: job.committed > done)  # type: ignore[misc]
        # Only now they are certainly those of the query that runs, not those of the one that has caught up.
        for cleaner in query._runner.context.live.cleaners.values():
            # As Spark's query does if it was about to when the cleaner was taken from it; there is no such file.
            cleaner.cleaner.clean(cleaner.entry(str(tmp_path / "gone"), 0, 0))
        job.land("3.txt", "c")
        support.wait_until(lambda: job.committed > before + 3)
        assert job.files == {"0.txt", "1.txt", "2.txt", "3.txt"}, "only the history is in a checkpoint"
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert (job.counts, job.files) == ({"a": 3, "b": 3, "c": 2}, {"3.txt"})
    query = job.start()
    try:
        job.land("4.txt", "a")
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert (job.counts, job.files) == ({"a": 4, "b": 3, "c": 2}, {"4.txt"})
