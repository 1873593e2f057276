"""Aggregate jobs as people have them, and fresh rows for them: scattered keys, texts of different lengths, nulls."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dataset import data_folder
from mixedmode.runtime.scan.decimal_words import of_unscaled
from pyspark.sql import functions as F

SCHEMA = (
    "id bigint, uuid string, kind string, city string, n int, amount bigint, price decimal(9,2), value double,"
    " ts timestamp"
)
#: Of each line of JSON.
LINE_SCHEMA = "id bigint, kind string, city string, amount bigint, tags array<string>"
_FILES = 8
_CHUNK_ROWS = 500_000
_VERSION = 2
#: Changes a number of 64 bits into another one of them.
_GOLDEN, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True)
class EngineJob:
    """A job, over frames of ours and of Spark's."""

    keyed: Callable[[Any], Any]
    #: About so many rows have the same key; 0: as the job has it.
    rows_per_key: int = 5
    #: What its files have besides: ``json``, the rows as texts; ``bad row``, behind 90 % one that stops tasks' scans.
    extra: str = ""

    @property
    def schema(self) -> str:
        """Spark's schema of the files."""
        return "line string" if self.extra == "json" else SCHEMA


def _computed(frame: Any) -> Any:
    some = frame.where(F.col("kind").isin("click", "view", "buy") & F.col("n").between(10, 900))
    return some.groupBy("id").agg(
        F.sum(F.col("amount") * 2).alias("twice"),
        F.sum(F.when(F.col("kind") == "buy", F.col("price")).otherwise(0)).alias("bought"),
        F.max(F.upper("kind")).alias("kind"),
        F.count_if(F.col("value") > 0).alias("positive"),
    )


def _by_day_and_city(frame: Any) -> Any:
    day = F.to_date("ts").alias("day")
    return frame.groupBy(day, F.coalesce("city", F.lit("none")).alias("city")).agg(
        F.count("*").alias("rows"), F.sum("price").alias("price"), F.avg("amount").alias("mean")
    )


def _of_lines(frame: Any) -> Any:
    parsed = frame.select(F.from_json("line", LINE_SCHEMA).alias("row")).select("row.*")
    return parsed.where(F.col("kind") != "refund").groupBy("id").agg(F.count("*"), F.sum("amount"))


def _doubles(frame: Any) -> Any:
    return frame.groupBy("id").agg(F.sum("value"), F.avg("value"), F.min("value"))


def _windows(length: str, *step: str, by: str) -> Callable[[Any], Any]:
    def keyed(frame: Any) -> Any:
        rows = frame.withWatermark("ts", "1 hour")
        return rows.groupBy(F.window("ts", length, *step), by).agg(F.sum("amount"))

    return keyed


JOBS: dict[str, EngineJob] = {
    "integers": EngineJob(lambda f: f.groupBy("id").agg(F.count("*"), F.sum("amount"), F.max("amount"), F.max("ts"))),
    "decimals, two keys": EngineJob(lambda f: f.groupBy("id", "kind").agg(F.sum("price"), F.avg("price"))),
    "filter and computed columns": EngineJob(_computed),
    "computed keys": EngineJob(_by_day_and_city),
    "doubles": EngineJob(_doubles),
    "doubles, a bad row at 90 %": EngineJob(_doubles, extra="bad row"),
    "uuid keys": EngineJob(lambda f: f.groupBy("uuid").agg(F.count("*"), F.sum("amount"))),
    "uuid keys, a row each": EngineJob(lambda f: f.groupBy("uuid").agg(F.count("*"), F.sum("amount")), 1),
    "window and key, a row a group": EngineJob(_windows("1 hour", by="id")),
    "window and key, 50 rows a group": EngineJob(_windows("1 hour", by="n"), 0),
    "sliding windows": EngineJob(_windows("1 hour", "30 minutes", by="n"), 0),
    "JSON text": EngineJob(_of_lines, extra="json"),
}


def files(rows: int, job: EngineJob) -> list[str]:
    """The files of so many rows, made once."""
    name = f"engine-jobs-{rows}-{job.rows_per_key}{'-' * bool(job.extra)}{job.extra.replace(' ', '-')}-v{_VERSION}"
    folder = data_folder() / name
    if not folder.exists():
        made = folder.with_name(f"{folder.name}-{os.getpid()}")
        made.mkdir(parents=True)
        for number in range(_FILES):
            # Of so many keys hardly one comes twice.
            keys = rows * 1000 if job.rows_per_key == 1 else max(1, rows // (job.rows_per_key or 5))
            _write(made / f"{number}.parquet", rows // _FILES, rows, keys, number, job.extra)
        try:
            made.rename(folder)
        except OSError:
            shutil.rmtree(made)
    return sorted(map(str, folder.glob("*.parquet")))


def _write(path: Path, count: int, rows: int, keys: int, seed: int, extra: str) -> None:
    chance = np.random.default_rng([seed, rows, keys])
    writer = None
    for start in range(0, count, _CHUNK_ROWS):
        table = _rows(chance, min(_CHUNK_ROWS, count - start), rows, keys, seed * count + start)
        if extra == "json":
            table = pa.table({"line": _lines(chance, table)})
        elif extra:
            table = _with_bad_row(table, int(0.9 * rows) - seed * count - start)
        writer = writer or pq.ParquetWriter(path, table.schema, store_decimal_as_integer=True)  # as Spark does
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _lines(chance: np.random.Generator, table: pa.Table) -> list[str]:
    """Rows as JSON: keys in any order, some missing, some that nobody asks for, escapes, and one of 1,000 cut off."""
    orders = [json.dumps, _backwards]
    lines = []
    names = ("id", "kind", "city", "amount")
    columns = [table[name].to_pylist() for name in names]
    dice = chance.integers(0, 1000, (len(table), 2)).tolist()
    for (first, second), values in zip(dice, zip(*columns, strict=True), strict=True):
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        if first % 10 == 0:
            row.pop(names[1 + second % 3])
        if first % 7 == 0:
            row["tags"] = ['a "quoted" word', "two\nlines"][: second % 3]
        if second % 5 == 0:
            row["other"] = {"deep": [first, {"er": None}]}
        line = orders[second % 2](row)
        lines.append(line[: len(line) // 2] if first == 500 else line)
    return lines


def _backwards(row: dict[str, Any]) -> str:
    return json.dumps(dict(reversed(row.items())), ensure_ascii=False)


def _with_bad_row(table: pa.Table, place: int) -> pa.Table:
    """A negative zero at a place, if it is among these rows: Arrow's least value of a key is not Spark's then."""
    if not 0 <= place < len(table):
        return table
    values = table["value"].to_pylist()
    values[place] = -0.0
    return table.set_column(table.schema.get_field_index("value"), "value", pa.array(values, pa.float64()))


def _rows(chance: np.random.Generator, count: int, rows: int, keys: int, first: int) -> pa.Table:
    number = chance.integers(0, keys, count, dtype=np.uint64)
    mixed = (number * _GOLDEN) ^ ((number * _GOLDEN) >> np.uint64(31))
    other = mixed * _MIX
    both = np.stack([mixed, other], axis=1).astype("<u8").tobytes()
    texts = [str(uuid.UUID(bytes=both[at : at + 16])) for at in range(0, len(both), 16)]
    kinds = np.array(["click", "view", "buy", "refund", "cancellation by user", "x"])
    cities = np.array(["Rome", "São Paulo", "Wien", "Llanfairpwllgwyngyll", "Zürich", "Paris", "New York City"])
    amount = chance.integers(-1000, 100_000, count)
    # About 50 rows in each hour and number of a thousand: 14 s a row of a million.
    seconds = 1_700_000_000 + (first + np.arange(count)) * 72 // 1000 + chance.integers(0, 600, count)
    value = chance.normal(0, 1000, count)
    return pa.table(
        {
            "id": pa.array(mixed.view(np.int64)),
            "uuid": pa.array(texts),
            "kind": pa.array(kinds[chance.integers(0, len(kinds), count)]),
            "city": pa.array(cities[chance.integers(0, len(cities), count)], mask=chance.random(count) < 0.05),
            "n": pa.array(chance.integers(0, 1000, count).astype(np.int32)),
            "amount": pa.array(amount),
            "price": of_unscaled(amount, pa.decimal128(9, 2)),
            "value": pa.array(value, mask=chance.random(count) < 0.05),
            "ts": pa.array(seconds * 1_000_000).view(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        }
    )
