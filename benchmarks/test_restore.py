"""A query that is started again on a large state: how long until its first micro-batch has ended."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from dataset import Shape, dataset
from restart_process import OURS, STOCK, arguments


def test_restart(benchmark: Any, bench: Any, tmp_path: Path) -> None:
    """Both make the same state and are started again in turn, each time in a fresh process with some rows waiting."""
    keys, rows, rounds = bench.sizes.restore_keys, bench.sizes.restore_rows, bench.sizes.restore_rounds
    history = Shape(keys, keys, files=1, each_key_once=True)
    live = Shape(rows * rounds, keys, files=rounds)
    title = f"Restart on {keys:,} keys of state: from start() to the end of a micro-batch of {rows:,} rows"
    begun = bench.begin("restart", title, history=history.name, live=live.name)
    for shape in (history, live):
        dataset(shape)  # before anything is measured
    for way in (OURS, STOCK):
        process(arguments(way, "load", tmp_path, history, live))
    seconds: dict[str, list[float]] = {OURS: [], STOCK: []}
    told: dict[str, str] = {}

    def both() -> None:
        for way, each in seconds.items():
            found = process(arguments(way, "restart", tmp_path, history, live))
            each.append(found["seconds"])
            told[way] = found["parts"]

    benchmark.pedantic(both, rounds=rounds)
    notes = tuple(f"{way}, last round: {parts}" for way, parts in told.items())
    bench.record(begun, seconds=seconds, baselines=(STOCK,), notes=notes)


def process(command: list[str]) -> dict[str, Any]:
    """What a process of its own has found."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
