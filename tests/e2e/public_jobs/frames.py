"""The same rows as a batch, and as history and live together; a Kafka topic or a socket is a folder of files here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mixedmode

from .sources import SOURCES, TABLES, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of event times as late as this close what is open, and are no result.
END_MARKS = ("2031", "1924")


class Folders:
    """Each source's rows in files: the first half is history, the rest waits at the live source in two files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def of(self, name: str) -> Path:
        """The folder of one source, written when it is first asked for."""
        folder = self.root / name
        if not folder.exists():
            source = SOURCES[name]
            half, more = len(source.rows) // 2, len(source.rows) * 3 // 4
            files = {"history/0": source.rows[:half], "live/0": source.rows[half:more], "live/1": source.rows[more:]}
            if source.end is not None:
                files |= {f"live-to-the-end/{n}": files[f"live/{n}"] for n in range(2)}
                files["live-to-the-end/2"] = [source.end]
            for name_of_file, rows in files.items():
                path = folder / f"{name_of_file}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder


@dataclass(frozen=True)
class Batch:
    """All rows of each source as one batch: the oracle."""

    spark: SparkSession
    folders: Folders

    def stream(self, name: str) -> DataFrame:
        folder, source = self.folders.of(name), SOURCES[name]
        return self.spark.read.schema(source.schema).json([str(folder / "history"), str(folder / "live")])

    def table(self, name: str) -> DataFrame:
        return _table(self.spark, TABLES[name])


@dataclass(frozen=True)
class Stock:
    """What waits at each source, as the public job reads it: only its schema matters."""

    spark: SparkSession
    folders: Folders

    def stream(self, name: str) -> DataFrame:
        return _live(self.spark, self.folders.of(name) / "live", SOURCES[name])

    def table(self, name: str) -> DataFrame:
        return _table(self.spark, TABLES[name])


@dataclass(frozen=True)
class Moved:
    """The rows as a job on mixedmode reads them.

    Args:
        spark: the session.
        folders: where the rows are.
        closes: event time moves far past all rows at the end of the live source.
    """

    spark: SparkSession
    folders: Folders
    closes: bool = False

    def stream(self, name: str) -> Any:
        folder, source = self.folders.of(name), SOURCES[name]
        if self.closes and source.end is None:
            raise ValueError(f"source {name} has no row at the end of event time")
        history = self.spark.read.schema(source.schema).json(str(folder / "history"))
        live = _live(self.spark, folder / ("live-to-the-end" if self.closes else "live"), source)
        return mixedmode.read(history=history, live=live)

    def table(self, name: str) -> DataFrame:
        return _table(self.spark, TABLES[name])


def _live(spark: SparkSession, folder: Path, source: Source) -> DataFrame:
    return spark.readStream.schema(source.schema).json(str(folder))


def _table(spark: SparkSession, source: Source) -> DataFrame:
    names = [part.split()[0] for part in source.schema.split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in source.rows], source.schema)
