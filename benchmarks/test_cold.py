"""A small job in a session that has done nothing yet: from ``start()`` to live, against stock's first micro-batch."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest
from cold_process import JOBS, NOT_BEFOREHAND, OURS, arguments
from dataset import Shape, dataset
from in_turn import STOCK
from test_restore import process


@pytest.mark.parametrize("job", JOBS)
def test_cold(benchmark: Any, bench: Any, tmp_path: Path, job: str) -> None:
    """Both have the same rows, the one as history, the other at its source; in turn, each in a fresh process."""
    sizes = bench.sizes
    shape = Shape(sizes.cold_rows, sizes.cold_keys, files=1)
    title = f"Cold start, {job}: {shape}, from start() in a fresh session to live, or to the end of a first micro-batch"
    begun = bench.begin(f"cold-{job}", title, shape=shape.name)
    dataset(shape)  # before anything is measured
    found: dict[str, list[dict[str, Any]]] = {OURS: [], NOT_BEFOREHAND: [], STOCK: []}

    def both() -> None:
        for way, each in found.items():
            each.append(process(arguments(way, job, tmp_path, shape)))

    benchmark.pedantic(both, rounds=sizes.cold_rounds)
    seconds = {way: [one["seconds"] for one in each] for way, each in found.items()}
    notes = tuple(
        f"{way}: median of {median(one['cpu_s'] for one in each):.1f} CPU-s in all processes, {each[-1]['jobs']} Spark"
        f" jobs; {each[-1]['parts']}"
        for way, each in found.items()
    )
    findings = {f"cold-{job}": median(seconds[OURS]) / median(seconds[STOCK])}
    bench.record(begun, seconds=seconds, baselines=(STOCK,), findings=findings, notes=notes)
