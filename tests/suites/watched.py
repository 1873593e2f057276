"""A query over files that land while it runs, by stock Structured Streaming and by mixedmode."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mixedmode
from pyspark.sql import DataFrame, SparkSession

WAYS = ("stock", "ours")


def read(way: str, live: Any) -> Any:
    """The frame of a source as the way reads it."""
    return live if way == "stock" else mixedmode.read(live=live)


class Landing:
    """A folder into which whole files come, each later than those before.

    Args:
        folder: of the files.
        beside: where a file is made before it is moved.
    """

    def __init__(self, folder: Path, beside: Path) -> None:
        self.folder, self._beside, self._at_s = folder, beside, 1_700_000_000
        folder.mkdir(parents=True, exist_ok=True)
        beside.mkdir(parents=True, exist_ok=True)

    def text(self, content: str, below: str = "", name: str = "") -> Path:
        """A file of text lands in a folder below."""
        made = self._beside / (name or f"{uuid.uuid4().hex}.txt")
        made.write_text(content)
        return self._land(made, below, made.name)

    def rows(self, frame: DataFrame, kind: str) -> None:
        """The files that Spark writes of a frame land."""
        out = self._beside / uuid.uuid4().hex
        frame.coalesce(1).write.format(kind).save(str(out))
        for made in sorted(out.glob(f"*.{kind}")):
            self._land(made, "", made.name)

    def later(self, seconds: int) -> None:
        """What lands next is younger by so much more."""
        self._at_s += seconds

    def _land(self, made: Path, below: str, name: str) -> Path:
        into = self.folder / below
        into.mkdir(parents=True, exist_ok=True)
        self._at_s += 1
        os.utime(made, (self._at_s, self._at_s))
        return made.rename(into / name)


class Watched:
    """A query whose rows are kept, by the call that brought them.

    Args:
        folder: for its checkpoints.
        frame: makes what is written.
        mode: output mode.
    """

    def __init__(self, folder: Path, frame: Callable[[], Any], *, mode: str = "append") -> None:
        self._checkpoints, self._frame = folder / f"checkpoints-{uuid.uuid4().hex[:8]}", frame
        self._mode = mode
        self.calls: list[list[tuple[Any, ...]]] = []
        self.query: Any = None

    def start(self, **trigger: Any) -> Watched:
        def take(rows: DataFrame, number: int) -> None:
            if got := sorted(map(tuple, rows.collect()), key=repr):
                self.calls.append(got)

        writer = self._frame().writeStream.foreachBatch(take).outputMode(self._mode)
        if trigger:
            writer = writer.trigger(**trigger)
        self.query = writer.option("checkpointLocation", str(self._checkpoints)).start()
        return self

    def stop(self) -> None:
        self.query.stop()

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows so far, when everything that has landed is processed."""
        self.query.processAllAvailable()
        return sorted((row for call in self.calls for row in call), key=repr)

    def ended(self, **trigger: Any) -> list[list[tuple[Any, ...]]]:
        """The calls of a run that ends by itself."""
        before = len(self.calls)
        self.start(**trigger)
        self.query.awaitTermination(120)
        assert self.query.exception() is None
        return self.calls[before:]


@contextmanager
def running(watched: Watched) -> Iterator[Watched]:
    """The query runs, and is stopped at the end."""
    watched.start()
    try:
        yield watched
    finally:
        watched.stop()


def table(spark: SparkSession, values: list[Any], ddl: str = "value string") -> DataFrame:
    """Rows of a frame; single values are rows of one column."""
    return spark.createDataFrame([row if isinstance(row, tuple) else (row,) for row in values], ddl)


def source(
    spark: SparkSession, kind: str, path: Any, schema: str | None = "value string", **options: Any
) -> Callable[[], Any]:
    def made() -> Any:
        reader = spark.readStream.format(kind).options(**options)
        return (reader.schema(schema) if schema else reader).load(str(path))

    return made


def both(folder: Path, run: Callable[[str, Path], Any]) -> list[Any]:
    """What each way gives, each in a folder of its own."""
    found = []
    for way in WAYS:
        (folder / way).mkdir()
        found.append(run(way, folder / way))
    return found


def whole(folder: Path, way: str, frame: Callable[[], Any]) -> list[Any]:
    """All rows of a query that ends when it has read what is there."""
    return [row for call in Watched(folder, lambda: read(way, frame())).ended(availableNow=True) for row in call]
