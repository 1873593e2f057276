"""Python data sources over a folder of files that only grow, for tests of where a live source begins.

A feed is one text file, a row a line.  ``from`` says where it begins: ``now``, which is its length when Spark asks, or
``start``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader

SCHEMA = "key string, ts timestamp, value long"
START = datetime(2024, 1, 1)


def append(path: Path, *values: int) -> None:
    """Add a row for each value, at once."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, "".join(f"{value}\n" for value in values).encode())
    finally:
        os.close(descriptor)


def values_of(path: str) -> list[int]:
    try:
        with open(path, encoding="utf-8") as file:
            return [int(line) for line in file]
    except FileNotFoundError:
        return []


def rows(values: list[int]) -> Iterator[tuple[Any, ...]]:
    return iter([(f"feed{value % 3}", START + timedelta(seconds=value), value) for value in values])


class Feed(DataSource):
    """``kind`` is ``stream`` or ``simple``, for the two reader classes that Spark has."""

    @classmethod
    def name(cls) -> str:
        return "feed"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        if self.options["kind"] == "simple":
            return super().streamReader(schema)  # raises: Spark then asks for the other one
        return StreamReader(self.options["path"], self.options["from"])

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return SimpleReader(self.options["path"], self.options["from"])


class _Reader:
    def __init__(self, path: str, begin: str) -> None:
        self._path, self._begin = path, begin

    def initialOffset(self) -> dict[str, int]:
        return {"line": len(values_of(self._path)) if self._begin == "now" else 0}


class StreamReader(_Reader, DataSourceStreamReader):
    def latestOffset(self, *asked: Any) -> dict[str, int]:
        return {"line": len(values_of(self._path))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["line"], end["line"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        first, last = partition.value
        return rows(values_of(self._path)[first:last])


class SimpleReader(_Reader, SimpleDataSourceStreamReader):
    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        found = values_of(self._path)
        return rows(found[start["line"] :]), {"line": len(found)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        return rows(values_of(self._path)[start["line"] : end["line"]])
