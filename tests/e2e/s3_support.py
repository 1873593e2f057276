"""A job whose folders are all below one URI of an object store, for tests and the drivers that they kill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import intervals
import pyarrow.parquet as pq
import support
from mixedmode.runtime.storage.filesystem import list_files, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixedmode import MixedQuery
    from pyspark.sql import SparkSession

EVENTS = support.stream_of(240, seed=5)
OPTIONS = {
    "execution.backlog.final-watermark": "observed",
    "execution.checkpointing.interval": intervals.named("1 hour"),
    "pipeline.parallelism": 2,
}


class Place:
    """One job's folders.

    Args:
        spark: the session.
        root: the URI.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark, self.root = spark, root

    def land(self, *batches: list[support.Event], folder: str = "landing") -> None:
        """One new file for each batch, named by its first event."""
        filesystem, path = resolve(f"{self.root}/{folder}")
        for events in batches:
            with filesystem.open_output_stream(f"{path}/{events[0][0]}-{events[0][1]:06d}.parquet") as file:
                pq.write_table(support.table(events), file)

    def job(self) -> Any:
        """Sessions over history and live files."""
        history = self.spark.read.schema(support.ROW_SCHEMA).parquet(f"{self.root}/history")
        live = self.spark.readStream.schema(support.ROW_SCHEMA).parquet(f"{self.root}/landing")
        return support.sessions(history, live)

    def rows(self) -> list[tuple[Any, ...]]:
        """What a reader of the output sees."""
        return sorted((tuple(row) for row in self.spark.read.parquet(f"{self.root}/out").collect()), key=repr)


def started(place: Place, writer: Any, **options: Any) -> MixedQuery:
    """A query that is live; what is not said otherwise is below the place."""
    for name, value in {**OPTIONS, "checkpointLocation": f"{place.root}/checkpoints", **options}.items():
        writer = writer.option(name, value)
    query: MixedQuery = writer.start()
    support.live(query)
    return query


def shown(root: str) -> Iterator[tuple[Any, ...]]:
    """The rows of the output's files, without Spark."""
    filesystem, path = resolve(f"{root}/out")
    for info in list_files(filesystem, path):
        if info.path.endswith(".parquet"):
            with filesystem.open_input_file(info.path) as file:
                for row in pq.read_table(file).to_pylist():
                    yield tuple(map(support._naive, row.values()))
