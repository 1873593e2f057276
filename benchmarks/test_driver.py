"""What epochs and checkpoints cost the driver, by shards: its CPU, bytes through it, requests to its store.  No Spark.

Tasks do nothing, so this is the share of a cluster of any size that one process has to do: ``benchmarks/README.md``
says what follows of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import scheduling
from driver_cost import Cost, driver
from pyspark.sql import SparkSession

SHARDS = (8, 128, 1024)
#: Before the clock counts; compactions have begun by then.
_WARM_UP = 20


@dataclass(frozen=True)
class Found:
    """What was measured with some number of shards."""

    epochs: Cost
    checkpoints: Cost
    requests: Counter[str]


def test_driver(benchmark: Any, bench: Any) -> None:
    """Epochs with rows, a state file and a file of output for every shard, and a checkpoint after each few."""
    epochs, each = bench.sizes.driver_epochs, bench.sizes.driver_epochs_per_checkpoint
    title = f"Driver: {epochs} epochs whose tasks do nothing, a checkpoint after every {each}"
    begun = bench.begin("driver", title, shards=SHARDS, epochs=epochs, each=each)
    found: dict[int, Found] = {}

    def all_jobs() -> None:
        for shards in SHARDS:
            with bench.scratch() as folder:
                found[shards] = run(folder, shards, epochs, each)

    benchmark.pedantic(all_jobs, rounds=1)
    few, _, many = (found[shards] for shards in SHARDS)
    times = SHARDS[-1] / SHARDS[0]
    seconds = {}
    for shards, one in found.items():
        seconds[f"epoch, {shards} shards, CPU time"] = one.epochs.cpu_s
        seconds[f"checkpoint, {shards} shards, CPU time"] = one.checkpoints.cpu_s
    bench.record(
        begun,
        seconds=seconds,
        findings={
            "driver-epoch": median(many.epochs.cpu_s) * 1e3,
            "driver-checkpoint": median(many.checkpoints.cpu_s) * 1e3,
            "driver-epoch-growth": median(many.epochs.cpu_s) / median(few.epochs.cpu_s) / times,
            "driver-checkpoint-growth": median(many.checkpoints.cpu_s) / median(few.checkpoints.cpu_s) / times,
            "driver-task-read": max(many.epochs.task_cpu_s) * 1e3,
        },
        notes=tuple(line for shards, one in found.items() for line in told(shards, one, each)),
    )


def run(folder: Path, shards: int, epochs: int, each: int) -> Found:
    """The costs of a job with so many shards, and apart from them what a checkpoint asks of an object store."""
    local, remote = folder / "local", folder / "remote"
    with driver(local, shards) as running:
        for number in range(_WARM_UP + epochs):
            if number == _WARM_UP:
                running.forget()
            running.epoch()
            if number % each == each - 1:
                running.checkpoint()
        costs = running.epochs_cost, running.checkpoints_cost
    with driver(remote, shards, counted=True) as running:
        requests: list[Counter[str]] = []
        for number in range(each * 5):
            running.epoch()
            if number % each == each - 1:
                running.checkpoint()
                requests.append(running.requests())
    return Found(*costs, middle(requests[2:]))


def middle(requests: Sequence[Counter[str]]) -> Counter[str]:
    """The median of each kind."""
    kinds = {kind for one in requests for kind in one}
    return Counter({kind: round(median([one[kind] for one in requests])) for kind in sorted(kinds)})


def told(shards: int, found: Found, each: int) -> list[str]:
    """What goes through the driver, in lines."""
    epochs, checkpoints, requests = found.epochs, found.checkpoints, found.requests
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(requests.items()))
    return [
        f"{shards} shards, an epoch: {median(epochs.task_bytes):,.0f} bytes are sent to each task, which takes a worker"
        f" {median(epochs.task_cpu_s) * 1e3:.2f} ms to read; {median(epochs.report_bytes):,.0f} bytes of reports",
        f"{shards} shards, a checkpoint of {each} epochs: {median(checkpoints.metadata_bytes):,.0f} bytes of _metadata,"
        f" {sum(requests.values()):,} requests to an object store ({kinds})",
    ]


def test_scheduling(benchmark: Any, spark: SparkSession, bench: Any) -> None:
    """Spark's own part of the driver: jobs whose tasks do nothing, by threads of the JVM."""
    jobs = bench.sizes.driver_jobs
    begun = bench.begin(
        "scheduling", f"Spark's scheduler: {jobs} jobs whose tasks do nothing", shards=SHARDS, jobs=jobs
    )
    found: dict[int, Counter[str]] = {}

    def all_jobs() -> None:
        pid = scheduling.jvm()
        for shards in SHARDS:
            for _ in range(5):  # until the JVM has compiled what it will
                scheduling.run(spark, shards)
            before = scheduling.cpu_s(pid)
            for _ in range(jobs):
                scheduling.run(spark, shards)
            found[shards] = scheduling.cpu_s(pid) - before

    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        benchmark.pedantic(all_jobs, rounds=1)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    bench.record(
        begun,
        seconds={
            f"{shards} tasks, CPU time of the driver's threads": [found[shards][scheduling.DRIVER] / jobs]
            for shards in SHARDS
        },
        notes=tuple(
            f"{shards} tasks: " + ", ".join(f"{whose} {used / jobs * 1e3:.1f} ms" for whose, used in one.items())
            for shards, one in found.items()
        ),
    )
