"""Ten million keys of state: how long until they are there, and until a restart goes on, also in other shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dataset import Shape, dataset
from large_state_process import JOBS, arguments
from test_restore import process

_MADE = "backlog to checkpoint, with start and stop"
_AGAIN, _RESCALED = "restart, same shards", "restart, twice the shards"


@pytest.mark.parametrize("job", JOBS)
def test_large_state(benchmark: Any, bench: Any, tmp_path: Path, job: str) -> None:
    """State is made in one process; fresh ones go on from it with as many shards as before, and with twice as many."""
    keys, rows = bench.sizes.large_state_keys, bench.sizes.restore_rows
    shards = int(os.environ.get("MIXEDMODE_BENCH_CORES", "2"))
    history, live = Shape(keys, keys, each_key_once=True), Shape(rows * 2, keys, files=2)
    title = f"Large state, {job}: {keys:,} keys, then a micro-batch of {rows:,} rows"
    begun = bench.begin(f"large-state-{job}", title, history=history.name, live=live.name, shards=shards)
    for shape in (history, live):
        dataset(shape)  # before anything is measured
    found: dict[str, dict[str, Any]] = {}

    def each_in_turn() -> None:
        for way, what, count in ((_MADE, "load", 1), (_AGAIN, "restart", 1), (_RESCALED, "restart", 2)):
            found[way] = process(arguments(what, tmp_path, history, live, job, shards * count))

    benchmark.pedantic(each_in_turn, rounds=1)
    checkpoint = found[_MADE]["checkpoint"]
    parts = ", ".join(f"{name} {value} ms" for name, value in checkpoint["durationsMs"].items())
    bench.record(
        begun,
        seconds={way: [one["seconds"]] for way, one in found.items()},
        notes=(
            f"checkpoint at the switch: {checkpoint['durationMs']} ms ({parts}), {checkpoint['stateBytes']:,} bytes in"
            f" {checkpoint['stateFiles']} files",
            *(
                f"{way}, peak of memory: " + ", ".join(f"{who} {size:,} MiB" for who, size in one["memory"].items())
                for way, one in found.items()
            ),
        ),
    )
