"""The folder in which the driver and the shards of one run in Real-Time Mode tell each other what they have done.

::

    <run>/orders/00000012      what an epoch begins with: written by the driver when the epoch before is committed
    <run>/segments/00000012-3  what is durable of shard 3's change log, for local copies in other processes
    <run>/progress/00000012-3  what shard 3 has done of it so far, for people who look
    <run>/reports/00000012-3   what shard 3 has done in it: written by the shard when its change log is durable

The folder's name is the run's own, so it is the fencing token of all that lies in it: a task that outlives its query
reports to a folder that nobody looks at, or that is gone.  Epochs go by the numbers of Spark's batches here.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyarrow import fs

from ....errors import CheckpointError
from ....state.keys.keygroups import ShardId
from ....state.store.files import StateFile
from ....state.store.state_manifest import StateManifest
from ...operators.contract import EpochSpec
from ...storage.filesystem import (
    delete_quietly,
    exists,
    is_local_disk,
    list_files,
    progress_interval_s,
    read_bytes,
    write_atomically,
)
from ...support.ids import BatchId
from ..report import ShardReport
from .latency_histogram import EpochProgress

#: How often a shard looks for its order: on a local disk, and elsewhere.
_LOOK_EVERY_S, _LOOK_FAR_EVERY_S = 0.002, 0.05
#: How often it looks whether the run is still there.
_ALIVE_EVERY_S = 1.0


@dataclass(frozen=True)
class EpochOrder:
    """What all shards of an epoch begin with: the committed state, and nothing newer."""

    spec: EpochSpec
    #: By shard.
    manifests: tuple[StateManifest, ...]

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps({"spec": asdict(self.spec), "shards": [one.to_json() for one in self.manifests]}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> EpochOrder:
        body = json.loads(data)
        return cls(EpochSpec.from_json(body["spec"]), tuple(StateManifest.from_json(one) for one in body["shards"]))


@dataclass
class SeenMessages:
    """How many messages of each source partition a shard has had, before it looked at any, and the sum of their
    offsets."""

    counts: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)

    def add(self, partitions: Sequence[int], offsets: Sequence[int]) -> None:
        """Messages have come."""
        for partition, offset in zip(partitions, offsets, strict=True):
            self.counts[partition] = self.counts.get(partition, 0) + 1
            self.offsets[partition] = self.offsets.get(partition, 0) + offset

    def include(self, other: SeenMessages) -> None:
        """Count what another shard has had, too."""
        for mine, its in ((self.counts, other.counts), (self.offsets, other.offsets)):
            for partition, number in its.items():
                mine[partition] = mine.get(partition, 0) + number

    def are_all(self, start: Mapping[int, int], end: Mapping[int, int]) -> bool:
        """Whether they are just the messages from one offset of each partition up to before another one."""
        if not self.counts.keys() <= end.keys():
            return False
        for partition, to in end.items():
            since = start.get(partition, 0)
            total = (to * (to - 1) - since * (since - 1)) // 2
            if (self.counts.get(partition, 0), self.offsets.get(partition, 0)) != (to - since, total):
                return False
        return True


@dataclass(frozen=True)
class RealTimeReport:
    """What a shard has done in an epoch; nothing of it counts before the driver has committed the epoch."""

    seen: SeenMessages
    report: ShardReport
    progress: EpochProgress = field(default_factory=EpochProgress)

    def to_bytes(self) -> bytes:
        """As JSON."""
        progress = self.progress.to_bytes().decode()
        return json.dumps([asdict(self.seen), self.report.to_bytes().decode(), progress]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> RealTimeReport:
        seen, report, progress = json.loads(data)
        counts, offsets = ({int(key): value for key, value in seen[name].items()} for name in ("counts", "offsets"))
        found = EpochProgress.from_bytes(progress.encode())
        return cls(SeenMessages(counts, offsets), ShardReport.from_bytes(report.encode()), found or EpochProgress())


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run.

    Args:
        filesystem: of the checkpoint location.
        path: of the folder.
    """

    filesystem: fs.FileSystem
    path: str

    @property
    def is_local(self) -> bool:
        """Whether it lies on a local disk."""
        return is_local_disk(self.filesystem)

    @property
    def progress_interval_s(self) -> float:
        """How often shards tell how far they are, and the driver looks."""
        return progress_interval_s(self.filesystem)

    def make(self) -> None:
        """Make it."""
        for name in ("orders", "segments", "progress", "reports"):
            self.filesystem.create_dir(f"{self.path}/{name}", recursive=True)

    def write_order(self, batch: BatchId, order: EpochOrder) -> None:
        """Have the shards of an epoch begin."""
        write_atomically(self.filesystem, self._order(batch), order.to_bytes())

    def wait_for_order(self, batch: BatchId) -> EpochOrder:
        """The order of an epoch, as soon as the epoch before is committed.

        Raises:
            CheckpointError: the run is over, so no order will ever come.
        """
        path, look_s = self._order(batch), _LOOK_EVERY_S if self.is_local else _LOOK_FAR_EVERY_S
        look_at = time.monotonic()
        while not exists(self.filesystem, path):
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _ALIVE_EVERY_S
                if not exists(self.filesystem, f"{self.path}/orders"):
                    raise CheckpointError(f"the run of {self.path} is over: another driver has taken its place")
            time.sleep(look_s)
        return EpochOrder.from_bytes(read_bytes(self.filesystem, path))

    def write_segments(self, batch: BatchId, shard: ShardId, files: Sequence[StateFile]) -> None:
        """Tell other processes what is durable of a shard's change log; it counts for nothing but their local copies.

        A shard has one attempt in a run, as a failed task ends the query.
        """
        body = json.dumps([file.to_json() for file in files]).encode()
        write_atomically(self.filesystem, self._segments(batch, shard), body)

    def segments(self, batch: BatchId, shard: ShardId) -> list[StateFile]:
        """What a shard has told of its change log so far."""
        try:
            body = read_bytes(self.filesystem, self._segments(batch, shard))
        except FileNotFoundError:
            return []
        return [StateFile.from_json(file) for file in json.loads(body)]

    def write_progress(self, batch: BatchId, shard: ShardId, data: bytes) -> None:
        """Tell people what a shard has done so far; it is not durable.

        On a local disk it is written in place, which takes a hundredth of the time of a new file: so whoever reads it
        may find it half written.

        Args:
            batch: the epoch's number.
            shard: the shard.
            data: of :meth:`~.latency_histogram.EpochProgress.to_bytes`.

        Raises:
            OSError: it could not be written, as the run is over, say.
        """
        path = self._progress(batch, shard)
        if not self.is_local:
            with self.filesystem.open_output_stream(path) as stream:
                stream.write(data)
            return
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb", buffering=0) as file:
            file.write(data)
            file.truncate()

    def progress(self, batch: BatchId, shard: ShardId) -> EpochProgress | None:
        """What a shard has done so far; None: it has not told yet, or is just writing it."""
        try:
            return EpochProgress.from_bytes(read_bytes(self.filesystem, self._progress(batch, shard)))
        except FileNotFoundError:
            return None

    def write_report(self, batch: BatchId, report: RealTimeReport) -> None:
        """Tell the driver what a shard has done."""
        write_atomically(self.filesystem, self._report(batch, report.report.shard), report.to_bytes())

    def has_reports(self, batch: BatchId, shards: int) -> bool:
        """Whether all shards have reported."""
        infos = self.filesystem.get_file_info([self._report(batch, ShardId(shard)) for shard in range(shards)])
        return all(info.type == fs.FileType.File for info in infos)

    def reports(self, batch: BatchId, shards: int) -> list[RealTimeReport]:
        """The reports of all shards, which :meth:`has_reports`."""
        return [
            RealTimeReport.from_bytes(read_bytes(self.filesystem, self._report(batch, ShardId(shard))))
            for shard in range(shards)
        ]

    def forget(self, batch: BatchId, shards: int) -> None:
        """Remove what was said of an epoch that is committed."""
        written = (self._segments, self._progress, self._report)
        by_shard = (path(batch, ShardId(shard)) for shard in range(shards) for path in written)
        for path in (self._order(batch), *by_shard):
            with contextlib.suppress(OSError):
                delete_quietly(self.filesystem, path)

    def _order(self, batch: BatchId) -> str:
        return f"{self.path}/orders/{batch:08d}"

    def _segments(self, batch: BatchId, shard: ShardId) -> str:
        return f"{self.path}/segments/{batch:08d}-{shard}"

    def _progress(self, batch: BatchId, shard: ShardId) -> str:
        return f"{self.path}/progress/{batch:08d}-{shard}"

    def _report(self, batch: BatchId, shard: ShardId) -> str:
        return f"{self.path}/reports/{batch:08d}-{shard}"


def remove_other_runs(filesystem: fs.FileSystem, folder: str, keep: str | None) -> None:
    """Remove the folders of runs that are over; whoever claims the location is the only one that runs.

    Args:
        filesystem: of the checkpoint location.
        folder: has the folders of all runs.
        keep: the one that stays; None: none.
    """
    for info in list_files(filesystem, folder):
        if info.base_name != keep:
            with contextlib.suppress(OSError):
                delete_quietly(filesystem, info.path)


def runs_folder(home: str) -> str:
    """Where the folders of runs are; ``home``: of the location's branch."""
    return f"{home}/realtime"


def run_folder(filesystem: fs.FileSystem, home: str, run: Any) -> RunFolder:
    """The folder of a run, by its id."""
    return RunFolder(filesystem, f"{runs_folder(home)}/{run}")
