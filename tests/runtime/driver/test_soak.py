"""A job that runs on and on, with a checkpoint for each epoch: what it leaves behind stays as much as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from beside_support import Checkpointed
from graph_kinds import Buckets
from graph_support import Stage
from mixedmode.runtime.driver.checkpoint import housekeeping
from mixedmode.runtime.protocols.checkpoint_scheduler import CheckpointScheduler
from mixedmode.state.store import state_manifest

_EPOCH_MS = 400
#: Longer than a checkpoint is kept, twice and more.
_EPOCHS = 3 * housekeeping.KEEP_MS // _EPOCH_MS


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkpointed]:
    monkeypatch.setattr(state_manifest, "_FULL_MIN_BYTES", 20_000)
    made = Checkpointed(tmp_path, [Stage("a", Buckets(5))])
    made.coordinator.scheduler = CheckpointScheduler(None, 0, 0, 0, frozenset(made.state.sources))
    made.at_once = True
    yield made
    made.close()


def _left(job: Checkpointed) -> tuple[int, int]:
    """How many files there are, and the bytes of the newest ``_metadata``."""
    files = sum(len(names) for _, _, names in os.walk(job.folder))
    newest = Path(job.store.folder(job.store.ids()[-1])) / "_metadata"
    return files, newest.stat().st_size


@pytest.mark.slow
def test_files_and_metadata_stay_flat(job: Checkpointed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the first minute, in which every checkpoint is kept, neither grows: what comes, goes."""
    now = [1_000_000]
    monkeypatch.setattr(housekeeping, "clock_ms", lambda: now[0])
    monkeypatch.setattr("mixedmode.runtime.checkpoints.retention.time.time", lambda: now[0] / 1000)
    most: dict[str, tuple[int, int]] = {}
    for epoch in range(_EPOCHS):
        job.take("live", [(f"k{epoch % 7}", epoch * 1000, epoch % 5)])
        job.coordinator.checkpoint_if_due()
        job.coordinator.look()
        now[0] += _EPOCH_MS
        third = ("first", "second", "third")[epoch * 3 // _EPOCHS]
        files, size = _left(job) if epoch % 25 == 0 else (0, 0)
        before = most.get(third, (0, 0))
        most[third] = max(files, before[0]), max(size, before[1])
    assert job.state.checkpoint_id == _EPOCHS, "each epoch has had its checkpoint"
    assert most["third"][0] <= 1.1 * most["second"][0], most
    assert most["third"][1] <= 1.1 * most["second"][1], most
    job.end()
    job.check_files(nothing_else=True)
