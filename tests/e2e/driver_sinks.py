"""A history-only job in a process of its own, to be killed while its sink commits.

``python driver_sinks.py <folder>``: sessions of ``history.parquet``, one JSON file below ``out`` for each commit, and a
line in ``calls`` each time that a commit is asked for.  The sink is a data source of Python's that remembers
transactions, as Delta does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import support
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage


def keep(folder: Path, commit: str, rows: list[list[Any]]) -> None:
    """Write a commit's rows, all or none."""
    hidden = folder / "out" / f".{commit}"
    hidden.write_text(json.dumps(rows))
    hidden.rename(folder / "out" / f"{commit}.json")


def note(folder: Path, commit: str) -> None:
    """A commit is asked for."""
    with open(folder / "calls", "a") as calls:
        calls.write(f"{commit}\n")


def plain(row: Any) -> list[Any]:
    """A row as JSON has it."""
    return [value if isinstance(value, str | int) else value.isoformat() for value in row]


@dataclass
class Part(WriterCommitMessage):
    """What one task has written."""

    rows: list[list[Any]]


class Ledger(DataSource):
    """Remembers which version of which application it has."""

    @classmethod
    def name(cls) -> str:
        return "ledger"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return LedgerWriter(dict(self.options))


class LedgerWriter(DataSourceWriter):
    def __init__(self, options: dict[str, str]) -> None:
        lower = {name.lower(): value for name, value in options.items()}
        self.folder = Path(lower["folder"])
        self.commit_name = f"{lower['txnappid']}-{lower['txnversion']}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return Part([plain(row) for row in iterator])

    def commit(self, messages: list[Any]) -> None:
        note(self.folder, self.commit_name)
        if not (self.folder / "out" / f"{self.commit_name}.json").exists():
            keep(self.folder, self.commit_name, [row for part in messages if part for row in part.rows])


def main(folder: Path) -> None:
    spark = support.driver_session()
    (folder / "out").mkdir(exist_ok=True)
    history = spark.read.schema(support.ROW_SCHEMA).parquet(str(folder / "history.parquet"))
    writer = support.sessions(history, None).writeStream.option("checkpointLocation", str(folder / "checkpoints"))
    writer = writer.option("pipeline.parallelism", 2)
    spark.dataSource.register(Ledger)
    writer = writer.format("ledger").option("folder", str(folder)).option("execution.sink.transactional", "true")
    query = writer.start()
    query.awaitTermination()
    os._exit(0)  # no need to wait for the JVM to say good-bye


if __name__ == "__main__":
    main(Path(sys.argv[1]))
