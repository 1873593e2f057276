"""How soon a small job shows its first result: from ``start()`` to its first rows, in a warm session, against stock."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import mixedmode
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_turn import OURS, STOCK
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

_ROWS, _KEYS = 900, 90
_SCHEMA = "key string, number long"
#: Starts that are not counted: code is compiled, and Python workers begin.
_WARM_UP = 3
_PATIENCE_S = 600


def _write(folder: Path, first: int, last: int) -> str:
    """A file with the rows of these numbers; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = list(range(first, last))
    keys = [f"k{number % _KEYS}" for number in numbers]
    pq.write_table(pa.table({"key": keys, "number": numbers}), folder / f"{first:05d}.parquet")
    return str(folder)


def _first_result_s(rows: Any, checkpoints: Path) -> float:
    """Seconds from ``start()`` until the function of ``foreachBatch`` has its first rows."""
    is_there, moments = threading.Event(), list[float]()

    def take(batch: Any, _: int) -> None:
        batch.collect()
        moments.append(time.monotonic())
        is_there.set()

    latest = rows.groupBy("key").agg(F.count("*").alias("rows"), F.max("number").alias("number"))
    writer = latest.writeStream.outputMode("update").foreachBatch(take)
    writer = writer.option("checkpointLocation", str(checkpoints))
    started = time.monotonic()
    query = writer.start()
    try:
        assert is_there.wait(_PATIENCE_S), query.exception()
        return moments[0] - started
    finally:
        query.stop()


def _in_turn(spark: SparkSession, kind: str, rounds: int, bench: Any) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {STOCK: [], OURS: []}
    reader = spark.readStream.schema(_SCHEMA)
    with bench.scratch() as folder:
        for first in (0, _ROWS // 2):
            whole = _write(folder / "whole", first, first + _ROWS // 2)
        before, after = _write(folder / "before", 0, _ROWS // 2), _write(folder / "after", _ROWS // 2, _ROWS)
        for number in range(_WARM_UP + rounds):
            history = spark.read.schema(_SCHEMA).parquet(before)
            ours = {
                "live": lambda: mixedmode.read(live=reader.parquet(whole)),
                "history": lambda history=history: mixedmode.read(history=history, live=reader.parquet(after)),
            }[kind]
            for way, rows in ((STOCK, reader.parquet(whole)), (OURS, ours())):
                found[way].append(_first_result_s(rows, folder / f"{way}-{number}"))
    return {way: seconds[_WARM_UP:] for way, seconds in found.items()}


@pytest.mark.parametrize("kind", ["live", "history"])
def test_first_result(benchmark: Any, spark: SparkSession, bench: Any, kind: str) -> None:
    """The same rows each time: all of them at the live source, or half of them as a history beside."""
    rounds = bench.sizes.first_rounds
    title = f"First result of {_ROWS} rows in a warm session, {kind}: {rounds} starts"
    begun = bench.begin(f"first-{kind}", title, rounds=rounds)
    seconds = benchmark.pedantic(partial(_in_turn, spark, kind, rounds, bench), rounds=1)
    pairs = median(ours / stock for ours, stock in zip(seconds[OURS], seconds[STOCK], strict=True))
    notes = (f"median of the pairs {pairs:.2f} x", "load of the machine at the end " + " ".join(
        f"{load:.0f}" for load in os.getloadavg()))  # fmt: skip
    findings = {f"first-{kind}": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, rows=_ROWS, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)
