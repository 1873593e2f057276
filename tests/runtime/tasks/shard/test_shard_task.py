"""A task's shards, worked on in this process: what they write, and when it becomes durable."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import refusing
from mixedmode.errors import CheckpointError
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.dedup.definition import Retention
from mixedmode.runtime.operators.dedup.operator import DedupOperator
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.runtime.tasks import shard_states
from mixedmode.runtime.tasks.report import REPORT_COLUMN, ShardReport
from mixedmode.runtime.tasks.shard import shard_task
from mixedmode.runtime.tasks.shard.shard_task import ShardTask
from mixedmode.runtime.tasks.shard_states import ShardStates
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.packed_manifests import PackedManifests
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StructType

SHARDS = (KeyGroupRange(0, 1), KeyGroupRange(2, 3))
SCHEMA = StructType().add("k", LongType()).add("v", LongType())
#: Longer than any thread takes to begin.
_PATIENCE_S = 60


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is none of Spark's, and stays as it is."""
    cache = LocalStateCache()
    here = SimpleNamespace(taskAttemptId=lambda: 7, partitionId=lambda: 0)
    monkeypatch.setattr(shard_task, "task_context", lambda: here)
    monkeypatch.setattr(shard_task, "task_begins", lambda: None)
    for module in (shard_task, shard_states):
        monkeypatch.setattr(module, "process_cache", lambda: cache)
    yield
    cache.close()


def task_in(folder: Path, filesystem: fs.FileSystem) -> ShardTask:
    """The first epoch of a deduplication, whose two shards are worked on by one task."""
    for name in ("pool", "out", "local"):
        (folder / name).mkdir()
    operator = DedupOperator(
        uid="dedup", keys=("k",), payload=("v",), schema=SCHEMA, retention=Retention("for-ever"), event_time=None,
        lateness=None,
    )  # fmt: skip
    epoch = EpochSpec(
        epoch=1, style="random", watermark_ms=MIN_WATERMARK, firing_watermark_ms=MIN_WATERMARK,
        late_watermark_ms=MIN_WATERMARK, processing_time_ms=0, processing_timers_upto_ms=MIN_WATERMARK,
    )  # fmt: skip
    return ShardTask(
        run_id="run", epoch=epoch, operator=cloudpickle.dumps(operator), shards=(0, 1),
        states=ShardStates(
            job_id="job", manifests=PackedManifests([StateManifest(groups, ()) for groups in SHARDS]),
            filesystem=filesystem, pool=str(folder / "pool"), local_dir=str(folder / "local"), cache_bytes=1 << 20,
        ),
        output=OutputPlace(filesystem, str(folder / "out")), in_one=True,
    )  # fmt: skip


def after(task: ShardTask, keys: Sequence[int]) -> list[ShardReport]:
    """The reports of a task over a row for each key."""
    keys = sorted(keys, key=lambda key: (key % 4, key))
    rows = {
        "__kg": pa.array([key % 4 for key in keys], pa.int32()),
        "__k0": pa.array(keys, pa.int64()),
        "__rows": pa.array([1] * len(keys), pa.int64()),
        "__b0": pa.array([10 * key for key in keys], pa.int64()),
    }
    batches = list(task(iter([pa.RecordBatch.from_pydict(rows)])))
    return [ShardReport.from_bytes(row.as_py()) for batch in batches for row in batch.column(REPORT_COLUMN)]


def shown(folder: Path, reports: Sequence[ShardReport]) -> list[tuple[Any, ...]]:
    """The rows of what was staged."""
    tables = [pq.read_table(folder / "out" / file.name) for report in reports for file in report.output]
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def test_a_task_reports_each_shard_with_its_files(tmp_path: Path) -> None:
    """What the first epoch has written is the state of the second."""
    task = task_in(tmp_path, fs.LocalFileSystem())
    first = after(task, range(8))
    assert [report.shard for report in first] == [0, 1]
    assert shown(tmp_path, first) == [(key, 10 * key) for key in range(8)]
    assert all((tmp_path / "pool" / file.name).exists() for report in first for file in report.files)
    assert all("publish" in report.durations_ms for report in first)
    manifests = [StateManifest(groups, report.files) for groups, report in zip(SHARDS, first, strict=True)]
    states = replace(task.states, manifests=PackedManifests(manifests))
    second = replace(task, states=states, epoch=replace(task.epoch, epoch=2))
    assert shown(tmp_path, after(second, range(4, 12))) == [(key, 10 * key) for key in range(8, 12)]


class Meeting(refusing.ObjectStore):
    """A store in which a file appears when so many are on their way."""

    def __init__(self, folder: Path, files: int) -> None:
        super().__init__(folder / "no flag")
        self.all_there = threading.Barrier(files, timeout=_PATIENCE_S)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Meets(path, self.all_there), mode="w")


class _Meets(refusing._Upload):
    def __init__(self, path: str, all_there: threading.Barrier) -> None:
        super().__init__(path)
        self._all_there = all_there

    def close(self) -> None:
        if not self.closed:
            self._all_there.wait()
        super().close()


def test_state_and_output_of_all_shards_are_written_at_the_same_time(tmp_path: Path) -> None:
    """On a store that takes its time no file waits for another."""
    reports = after(task_in(tmp_path, fs.PyFileSystem(Meeting(tmp_path, 2 * len(SHARDS)))), range(8))
    assert shown(tmp_path, reports) == [(key, 10 * key) for key in range(8)]


def test_there_is_no_report_of_files_that_cannot_be_written(tmp_path: Path) -> None:
    """A task whose store is full fails, whichever file it is; nothing of that shard is left."""
    store = refusing.Refusing(tmp_path / "flag", part="-s0000-")
    store.refuse_after(10)
    task = task_in(tmp_path, fs.PyFileSystem(store))
    with pytest.raises(CheckpointError, match=refusing.NO_SPACE):
        after(task, range(8))
    assert not [path.name for path in tmp_path.rglob("*-s0000-*")]
