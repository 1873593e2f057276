"""Backlogs whose rows are JSON texts in Parquet files, read by tasks: the results are those of plain Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.errors import MixedModeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_backlog import ours, plain

SCHEMA = "id bigint, kind string, amount int, ts timestamp, user struct<name: string, tags: array<string>>"


def texts(seed: int, count: int = 600) -> list[str | None]:
    """Objects with keys in any order, some of which are missing; some texts are cut off, and some are none."""
    chance = random.Random(seed)
    found: list[str | None] = []
    for number in range(count):
        fields = {
            "id": chance.randrange(20),
            "kind": chance.choice(["click", "ä\n", None]),
            "amount": chance.randrange(-100, 100),
            "ts": f"2024-03-{chance.randrange(10, 12)}T0{chance.randrange(10)}:15:00" + chance.choice(["Z", ".5Z"]),
            "user": chance.choice([None, {"name": chance.choice("abc"), "age": 5}]),
            "other": [{"id": number}],
        }
        kept = chance.sample(sorted(fields), chance.randrange(4, 7))
        text = json.dumps({name: fields[name] for name in kept}, ensure_ascii=chance.random() < 0.5)
        found.append(chance.choice([text] * 30 + [text[: text.find("{", 1)], "no JSON", "", None]))
    return found


def rows_of(spark: SparkSession, folder: Path, *files: list[str | None]) -> DataFrame:
    for number, lines in enumerate(files):
        pq.write_table(pa.table({"line": pa.array(lines, pa.string())}), folder / f"{number}.parquet")
    row = F.from_json("line", SCHEMA)
    return spark.read.schema("line string").parquet(str(folder)).select(row.alias("row")).select("row.*")


KEYS: dict[str, Callable[[], list[Any]]] = {
    "a number": lambda: ["id"],
    "a field of an object": lambda: [F.col("user.name").alias("name"), "kind"],
    "windows": lambda: [F.window("ts", "2 hours"), "id"],
}


@pytest.mark.parametrize("name", KEYS)
def test_tasks_read_them_with_sparks_results(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Filters, keys and aggregates of fields, also of objects in the objects, with nothing said where there is none."""
    frame = rows_of(spark, tmp_path, texts(1), texts(2)).where("kind != 'none' OR amount > 0 OR id IS NULL")
    keys = KEYS[name]()
    wanted = [F.count("*").alias("n"), F.sum("amount"), F.max("kind"), F.min("ts"), F.count("user.name").alias("names")]
    found = ours(frame, keys, wanted, "arrow")
    assert found == plain(frame, keys, wanted)
    assert len(found) > 5


def test_what_only_spark_reads_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """A text in single quotes is JSON to Spark: it reads such a history, or the error says why tasks do not."""
    frame = rows_of(spark, tmp_path, [*texts(3, 50), "{'id': 3, 'amount': 7}"])
    wanted = [F.count("*").alias("n"), F.sum("amount")]
    with pytest.raises(MixedModeError, match="from_json of a text that only Spark reads"):
        ours(frame, ["id"], wanted, "arrow")
    assert ours(frame, ["id"], wanted, "auto") == plain(frame, ["id"], wanted)
