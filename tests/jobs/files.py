"""The input files of a job: cut in event-time order, with modification times in that order."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from .job import Input, Job, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 10
#: So many of them are history for mixedmode.
OF_HISTORY = 7
_FIRST_S, _STEP_S = 1_700_000_000, 60


def rows_of(job: Job, name: str) -> list[Row]:
    """The rows of one input; the same in every run."""
    source = job.inputs.get(name) or job.tables[name]
    return list(source.rows(Random(f"{job.name} {name}")))


def parts_of(job: Job, name: str, count: int = FILES) -> list[list[Row]]:
    """The rows of each of ``count`` files; the row at the end, if there is one, in a file of its own."""
    rows, end = rows_of(job, name), job.inputs[name].end
    cuts = [len(rows) * n // count for n in range(count + 1)]
    parts = [rows[start:stop] for start, stop in pairwise(cuts)]
    return parts if end is None else [*parts, [end]]


def write(source: Input, rows: list[Row], path: Path, number: int = 0) -> None:
    """Write one file that appears as a whole, as old as its number says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.part")
    hidden.write_text("".join(_line(source, row) + "\n" for row in rows))
    moment = _FIRST_S + number * _STEP_S
    os.utime(hidden, (moment, moment))
    hidden.rename(path)


def read_all(spark: SparkSession, source: Input, path: Path) -> DataFrame:
    """A folder of files as a DataFrame."""
    return spark.read.schema(source.schema).format(source.format).options(**source.options).load(str(path))


def read_stream(spark: SparkSession, source: Input, path: Path, files_per_batch: int) -> DataFrame:
    """A folder of files as a streaming DataFrame."""
    path.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(source.schema).format(source.format).options(**source.options)
    return reader.option("maxFilesPerTrigger", files_per_batch).load(str(path))


def _line(source: Input, row: Row | Mapping[str, Any]) -> str:
    if source.format == "json":
        return json.dumps(row)
    cells = ["" if value is None else str(value) for value in row.values()]
    return ",".join(f'"{cell}"' if "," in cell else cell for cell in cells) if source.format == "csv" else cells[0]
