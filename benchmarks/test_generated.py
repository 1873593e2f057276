"""Aggregate jobs by the roll of dice: what ``auto`` takes must not be slower than ``engine = spark``.

The jobs are those of ``tests/generated_jobs.py``; ``MIXEDMODE_BENCH_SEED`` draws others.  A job that ``auto`` leaves to
Spark is the same either way, and is not run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import mixedmode
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset import data_folder
from mixedmode.runtime.scan.decimal_words import of_unscaled
from processes import cpu_s
from pyspark.sql import DataFrame, SparkSession
from race import ratio
from sizes import GENERATED_KEYS, GENERATED_TIMES

AUTO, SPARK = "auto", "spark"
#: What each is to have of the other's speed, and how often a job that has less is looked at.
_LEAST, _LOOKS = 0.95, 3
_FILES = 4
_SEED = int(os.environ.get("MIXEDMODE_BENCH_SEED") or time.time())


def _generated() -> ModuleType:
    path = Path(__file__).parent.parent / "tests" / "generated_jobs.py"
    spec = importlib.util.spec_from_file_location("generated_jobs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generated_jobs"] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


def files(rows: int, keys: int) -> list[str]:
    """The files of so many rows, made once."""
    folder = data_folder() / f"generated-jobs-{rows}-{keys}-v2"
    if not folder.exists():
        made = folder.with_name(f"{folder.name}.{os.getpid()}")
        made.mkdir(parents=True)
        for number in range(_FILES):
            table, path = _table(number, rows // _FILES, keys), made / f"{number}.parquet"
            pq.write_table(table, path, store_decimal_as_integer=True)  # as Spark does
        made.rename(folder)
    return sorted(map(str, folder.glob("*.parquet")))


def _table(seed: int, count: int, keys: int) -> pa.Table:
    chance = np.random.default_rng([seed, count, keys])

    def texts(values: Sequence[str]) -> pa.Array:
        places = pa.array(chance.integers(0, len(values), count), mask=chance.random(count) < 0.05)
        return pa.array(values).take(places)

    def some(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=chance.random(count) < 0.05)

    seconds = 1_700_000_000 + chance.integers(0, 2_000_000, count)
    amount = chance.integers(-500, 2000, count)
    return pa.table(
        {
            "id": chance.integers(0, keys, count) * 7_919_777_333,
            "user": texts([f"user {number * 7919 % keys}" for number in range(keys)]),
            "country": texts(["DE", "FR", "br"]),
            "city": texts(["Rome", " Wien", "São Paulo", "Paris "]),
            "kind": texts(["click", "view", "buy", "refund"]),
            "n": some(chance.integers(0, 1000, count).astype(np.int32)),
            "amount": some(amount),
            "price": of_unscaled(amount, pa.decimal128(9, 2)),
            "discount": some(chance.normal(0, 1, count)),
            "url": texts([f"https://{'abc'[n % 3]}.example/{'shop' if n % 2 else 'x'}/item{n}" for n in range(1000)]),
            "ok": chance.random(count) < 0.5,
            "ts": pa.array(seconds * 1_000_000).view(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "day": pa.array((seconds // 86_400).astype(np.int32)).view(pa.date32()),
        }
    )


def _writer(job: Any, history: DataFrame, engine: str, folder: Path) -> Any:
    stream = job.of(mixedmode.read(history=history)).writeStream.format("noop").outputMode("update")
    stream = stream.option("checkpointLocation", str(folder / "checkpoints")).trigger(availableNow=True)
    return stream.option("execution.backlog.engine", engine)


def _takes_engine(job: Any, history: DataFrame, folder: Path) -> bool:
    plan = _writer(job, history, AUTO, folder).plan()
    return str(plan.phases[0].details.get("engine")).startswith("arrow")


@pytest.mark.parametrize("times", GENERATED_TIMES)
@pytest.mark.parametrize("keys", GENERATED_KEYS)
def test_generated_jobs(benchmark: Any, spark: SparkSession, bench: Any, keys: int, times: int) -> None:
    """Both in turn, job by job, in a warm JVM; a job that seems slower is looked at again, as noise would have it."""
    module = _generated()
    cells = list(product(GENERATED_KEYS, GENERATED_TIMES))
    jobs = module.generated_jobs(_SEED, bench.sizes.generated_jobs)[cells.index((keys, times)) :: len(cells)]
    few_rows, rows, count = bench.sizes.generated_rows, times * bench.sizes.generated_rows, len(jobs)
    name = f"generated-jobs-{keys}-keys-{times}"
    title = f"Generated aggregate jobs by engine: {count} jobs, {rows:,} rows, {keys:,} keys, seed {_SEED}"
    begun = bench.begin(name, title, rows=rows, jobs=count)
    fewer, history = (spark.read.schema(module.SCHEMA).parquet(*files(each, keys)) for each in (few_rows, rows))
    seconds: dict[str, list[float]] = {AUTO: [], SPARK: []}
    cpu_seconds: dict[str, list[float]] = {AUTO: [], SPARK: []}
    slower: list[str] = []

    def timed(job: Any, engine: str, of: DataFrame = history) -> tuple[float, float]:
        """Seconds, and CPU-seconds."""
        with bench.scratch() as folder:
            used_s, started = cpu_s(os.getpid()), time.perf_counter()
            _writer(job, of, engine, folder).start().awaitTermination()
            return time.perf_counter() - started, cpu_s(os.getpid()) - used_s

    def all_jobs() -> None:
        for job in jobs:
            with bench.scratch() as folder:
                if not _takes_engine(job, history, folder):
                    continue
            # Few rows warm the JVM up as well as many: Spark compiles the code of a job once.
            timed(job, AUTO, fewer), timed(job, SPARK, fewer)
            found: dict[str, list[float]] = {AUTO: [], SPARK: []}
            used: dict[str, list[float]] = {AUTO: [], SPARK: []}
            for _ in range(_LOOKS):
                for engine, each in found.items():
                    wall, cpu = timed(job, engine)
                    each.append(wall)
                    used[engine].append(cpu)
                if median(found[SPARK]) >= _LEAST * median(found[AUTO]):
                    break
            else:
                slower.append(f"{ratio(found, AUTO, SPARK):.2f} x, by CPU {ratio(used, AUTO, SPARK):.2f} x: {job}")
            # As it goes (with -s): all jobs take many minutes.
            print(f"{ratio(found, AUTO, SPARK):.2f} x, by CPU {ratio(used, AUTO, SPARK):.2f} x: {job}", flush=True)
            for engine, each in found.items():
                seconds[engine].append(median(each))
                cpu_seconds[engine].append(median(used[engine]))

    benchmark.pedantic(all_jobs, rounds=1)
    taken = len(seconds[AUTO])
    ratios = sorted(one / other for one, other in zip(seconds[SPARK], seconds[AUTO], strict=True))
    spread = "none is taken"
    if taken:
        spread = f"spark / auto: least {ratios[0]:.2f}, median {median(ratios):.2f}, greatest {ratios[-1]:.2f}"
    bench.record(
        begun,
        seconds=seconds if taken else {},
        cpu_s=cpu_seconds if taken else {},
        baselines=(SPARK,),
        findings={name: 1 - len(slower) / taken} if taken else {},
        notes=(f"auto takes {taken} of {count}, {len(slower)} of them below {_LEAST} x spark", spread, *slower),
    )
