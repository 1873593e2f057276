"""The sources of a job that a test runs: files that it writes, in place of what the job reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import PlanError
from ..planner.inputs.inputs import InputPart
from ..planner.plans.other_sources import with_source
from .row_tables import plain_rows, table_of


@dataclass
class WrittenSources:
    """Histories, each one file, and live sources, each a folder that gets a file with each batch.

    Args:
        spark: the session.
        folder: where they are.
        history: the rows of the histories, by their numbers if there are several.
    """

    spark: SparkSession
    folder: str
    history: Any
    #: By number, the schemas.
    histories: list[StructType] = field(init=False, default_factory=list)
    lives: list[StructType] = field(init=False, default_factory=list)
    _frames: dict[int, DataFrame] = field(init=False, default_factory=dict)
    #: So that nobody else gets the id of one.
    _known: list[DataFrame] = field(init=False, default_factory=list)
    _batches: int = 0

    def read(self, schema: StructType) -> tuple[DataFrame, DataFrame]:
        """A history and the live source that goes on from it."""
        return self._new_history(schema), self._new_live(schema)

    def instead_of(self, part: InputPart) -> InputPart:
        """A source of a frame with rows of the test."""
        given = part.as_given.frame
        if id(given) not in self._frames:
            self._known.append(given)
            make = self._new_live if part.is_live else self._new_history
            self._frames[id(given)] = make(given.schema)
        return replace(with_source(part, self._frames[id(given)]), seam=None)

    def _new_history(self, schema: StructType) -> DataFrame:
        number = len(self.histories)
        self.histories.append(schema)
        rows = self.history
        if isinstance(rows, Mapping):
            rows = rows.get(number, ())
        elif number:
            raise PlanError("history: the job reads several; give a dict of rows by number, as {0: […], 1: […]}")
        what = f"history {number}" if isinstance(self.history, Mapping) else "history"
        path = f"{self.folder}/history-{number}.parquet"
        pq.write_table(table_of(plain_rows(rows, what), schema, what), path)
        return self.spark.read.schema(schema).parquet(path)

    def _new_live(self, schema: StructType) -> DataFrame:
        path = f"{self.folder}/live-{len(self.lives)}"
        self.lives.append(schema)
        os.mkdir(path)
        return self.spark.readStream.schema(schema).parquet(path)

    def check(self) -> None:
        """Raise PlanError if rows were given for a history that the job does not read."""
        given = self.history
        numbers = set(given) if isinstance(given, Mapping) else {0} if plain_rows(given, "history") else set()
        if not numbers <= set(range(len(self.histories))):
            raise PlanError(f"history has rows of {sorted(numbers)}, but the job reads {len(self.histories)} histories")

    def batch(self, rows: Any, number: int) -> list[tuple[int, Any]]:
        """The rows of one batch as tables, by live source; raises PlanError for what does not fit."""
        what = f"live batch {number}"
        by_source = rows if isinstance(rows, Mapping) else {0: rows} if len(plain_rows(rows, what)) else {}
        found = []
        for source, some in by_source.items():
            if source not in range(len(self.lives)):
                raise PlanError(
                    f"{what} has rows of source {source!r}, but the job reads {len(self.lives)} live sources"
                )
            if not isinstance(rows, Mapping) and len(self.lives) > 1:
                raise PlanError(f"{what}: the job reads several live sources; give a dict of rows by number")
            found.append((source, table_of(plain_rows(some, what), self.lives[source], what)))
        return found

    def land(self, tables: list[tuple[int, Any]]) -> None:
        """Let a batch be there: all of its files at about the same time."""
        self._batches += 1
        ready = []
        for source, table in tables:
            if table.num_rows:
                hidden = f"{self.folder}/.batch-{self._batches}-{source}"
                pq.write_table(table, hidden)
                ready.append((hidden, f"{self.folder}/live-{source}/batch-{self._batches:06d}.parquet"))
        for hidden, path in ready:
            os.rename(hidden, path)
