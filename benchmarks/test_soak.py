"""A driver that runs on and on, a checkpoint behind each epoch: nothing piles up.  No Spark: tasks do nothing.

Checkpoints are kept for a minute, so the number of files follows how many the last minute had, which follows what else
runs on the machine: files are compared by the checkpoint.  ``test_steady.py`` is the same with Spark, over fewer
epochs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from driver_cost import Driver, driver
from processes import files_below, memory_bytes, open_handles
from test_steady import left_behind, past_the_minute

_SHARDS = 4
_SAMPLES = 80
_KINDS = ("files", "python_bytes", "handles", "threads", "metadata_bytes")


@dataclass(frozen=True)
class Sample:
    """How things stand after an epoch."""

    #: By checkpoint that is there.
    files: float
    checkpoints: int
    python_bytes: int
    handles: int
    threads: int
    metadata_bytes: int
    epoch_ms: float
    checkpoint_ms: float


def test_soak(benchmark: Any, bench: Any) -> None:
    """The second quarter against the last: in the first one the checkpoints of a minute, which are kept, come up."""
    epochs = bench.sizes.soak_epochs
    title = f"Soak without Spark: {epochs:,} epochs, a checkpoint behind each"
    begun = bench.begin("soak", title, epochs=epochs, shards=_SHARDS)
    with bench.scratch() as folder:
        samples, left = benchmark.pedantic(_run, args=(folder, epochs), rounds=1)
    quarter = max(len(samples) // 4, 1)
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    before, after = _middle(second), _middle(last)
    notes = tuple(f"{name:<20} second quarter {before[name]:>14,.1f}, last {after[name]:>14,.1f}" for name in before)
    notes += ("left a minute later: " + ", ".join(f"{kind} {count}" for kind, count in left.items()),)
    findings = {f"soak-{name.partition('_')[0]}": after[name] / before[name] for name in _KINDS}
    bench.record(begun, seconds={"epoch": [one.epoch_ms / 1e3 for one in samples]}, findings=findings, notes=notes)


def _run(folder: Path, epochs: int) -> tuple[list[Sample], Mapping[str, int]]:
    """Samples, and how many files of each kind there are when all that may go is gone."""
    each, samples = max(epochs // _SAMPLES, 1), []
    with driver(folder, _SHARDS) as running:
        for number in range(1, epochs + 1):
            running.epoch()
            running.checkpoint()
            if number % each == 0:
                samples.append(_sample(folder, running))
                running.forget()
        with past_the_minute():
            running.epoch()
            running.checkpoint()
            running.finish()
        return samples, left_behind(folder / "checkpoints" / "mixedmode")


def _sample(folder: Path, running: Driver) -> Sample:
    epochs, checkpoints = running.epochs_cost, running.checkpoints_cost
    files = files_below(folder / "checkpoints")
    complete = sum(path.endswith("/_metadata") for path in files)
    return Sample(
        files=len(files) / complete,
        checkpoints=complete,
        python_bytes=memory_bytes(os.getpid()),
        handles=open_handles(os.getpid()),
        threads=threading.active_count(),
        metadata_bytes=checkpoints.metadata_bytes[-1],
        epoch_ms=median(epochs.cpu_s) * 1e3,
        checkpoint_ms=median(checkpoints.cpu_s) * 1e3,
    )


def _middle(samples: Sequence[Sample]) -> dict[str, float]:
    return {field.name: median([getattr(one, field.name) for one in samples]) for field in fields(Sample)}
