"""Small, valid instances of what the runtime stores, as factories."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mixedmode.runtime.checkpoints.identity import JobIdentity
from mixedmode.runtime.checkpoints.metadata import (
    CheckpointMetadata,
    OperatorState,
    ShardState,
    SourceState,
    SparkPosition,
)
from mixedmode.runtime.checkpoints.store import CheckpointStore
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.transaction import SinkTransaction
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs

# The tests are not a package (the repository root is one): make their helpers importable.
sys.path.insert(0, str(Path(__file__).parent))

from aggregate_support import Job

UID = "stage"


def _state_file(store: CheckpointStore, name: str, epoch: int = 1) -> StateFile:
    """A real state file with one entry in the store's pool."""
    pool = store.pool(UID)
    writer = LogWriter(store.filesystem, pool, f"{store.location}/local", name, epoch)
    writer.put(b"\x00\x00\x01key", b"value of " + name.encode())
    (file,) = writer.finish()
    return file


def _metadata(checkpoint_id: int = 1, *files: StateFile, **changes: object) -> CheckpointMetadata:
    """A checkpoint with one operator of one shard."""
    manifest = StateManifest(KeyGroupRange(0, 127), files)
    body: dict[str, object] = {
        "checkpoint_id": checkpoint_id,
        "job_id": "job",
        "timestamp_ms": 1_700_000_000_000,
        "epoch": checkpoint_id,
        "watermark_ms": -(2**63),
        "max_event_time_ms": None,
        "sources": {
            "history": SourceState(
                is_backlog=False, finished=True, position={"slices": 2, "bounds_us": [5], "next": 2}
            ),
            "live": SourceState(is_backlog=True),
        },
        "spark": SparkPosition(batch_id=3, offset_entry='v1\n{"batchWatermarkMs":0}\n{"logOffset":0}'),
        "operators": (
            OperatorState(
                uid=UID,
                max_parallelism=128,
                registry=[],
                shards=(ShardState(lineage=manifest.to_json(), next_event_timer_ms=2**62),),
            ),
        ),
        "transaction": SinkTransaction(id=checkpoint_id, files=(StagedFile(name="a", rows=1, size_bytes=2),)),
        "rows_late_total": 4,
    }
    return CheckpointMetadata.model_validate({**body, **changes})


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """The store of a job's location; what needs another one has a fixture of its own."""
    made = CheckpointStore(fs.LocalFileSystem(), str(tmp_path / "checkpoints"))
    made.claim(JobIdentity("job", ({"uid": UID},), 128))
    return made


@pytest.fixture
def make_state_file() -> Callable[..., StateFile]:
    return _state_file


@pytest.fixture
def make_metadata() -> Callable[..., CheckpointMetadata]:
    return _metadata


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Makes a job out of an aggregate operator; closes its local copies at the end."""
    jobs: list[Job] = []

    def make(operator: Any, **kwargs: Any) -> Job:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        jobs.append(Job(operator, folder, **kwargs))
        return jobs[-1]

    yield make
    for made in jobs:
        made.cache.close()
