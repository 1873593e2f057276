"""Finished shards of a sorted backlog pass, kept so that a restarted driver need not compute them again.

Below ``<checkpointLocation>/mixedmode/backlog``::

    pin.json                 the fingerprint of the backlog, the EpochSpec of its first pass, the pin's id
    <id>/<attempt>.report    a finished attempt's report; the files that it names are complete
    <id>/<uid>/pass.json     for a stage that follows others: its EpochSpec, and the files that it reads
    <id>/<uid>/<attempt>.report

Invariants:
- A pin belongs to one backlog: with another fingerprint all of it is thrown away before anything is read.  Each pin has
  a folder of its own, so a task of an earlier run that outlives its driver cannot leave a report under a later pin.
- A stage that follows others reads what they have handed on: if one shard of theirs was computed again, other files,
  all of its own shards are.
- Only the first pass of a backlog is pinned: a later one stands on state that a restarted driver does not have.
- All shards of a pass run under the pinned EpochSpec (its processing time and firing watermark), whichever run computes
  them, so shards of different runs fit together.
- Nothing here is visible to readers, and a checkpoint makes the pin obsolete.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from pyarrow import fs

from ....state.keys.keygroups import ShardId
from ....state.store.pool import StatePool
from ...checkpoints.store import CheckpointStore
from ...connectors.output_place import OutputPlace
from ...connectors.staging import check_staged
from ...operators.contract import EpochSpec
from ...storage.checksummed import read_sealed, unseal, write_sealed
from ...storage.filesystem import delete_quietly, exists, list_files, read_bytes
from ...tasks.report import REPORT_SUFFIX, ShardReport

#: Files that are read at the same time to see whether a finished shard is whole.
_READERS = 8
_PASS = "pass.json"


@dataclass
class PinnedBacklog:
    """The pin of one checkpoint location."""

    store: CheckpointStore
    fingerprint: str

    @property
    def folder(self) -> str:
        """Where the pin and the reports are."""
        return self.store.backlog

    @property
    def reports(self) -> str | None:
        """Where the tasks of the pinned pass leave their reports; None: nothing is pinned."""
        body = self._body()
        return None if body is None else f"{self.folder}/{body['id']}"

    @property
    def _pin(self) -> str:
        return self.store.backlog_pin

    def load(self, live_position: str | None) -> EpochSpec | None:
        """The pinned pass of an earlier run over the same backlog; None: there is none.

        Args:
            live_position: Spark's offsets entry of the live source's batch in this pass; None: it has none.
        """
        body = self._body()
        if body is None or body["live_position"] != live_position:
            return None
        return EpochSpec.from_json(body["epoch"])

    @property
    def live_position(self) -> str | None:
        """Spark's offsets entry of the live source's batch in the pinned pass; None: nothing is pinned, or no batch."""
        body = self._body()
        return None if body is None else body["live_position"]

    @property
    def belongs(self) -> bool:
        """True if there is a pin of this backlog's fingerprint."""
        return self._body() is not None

    def _body(self) -> dict[str, Any] | None:
        if not exists(self.store.filesystem, self._pin):
            return None
        try:
            body: dict[str, Any] = read_sealed(self.store.filesystem, self._pin)
            EpochSpec.from_json(body["epoch"])
        except (ValueError, TypeError):  # damaged, or of a version that knew other kinds of epochs
            return None
        return body if body["fingerprint"] == self.fingerprint and "id" in body else None

    def save(self, epoch: EpochSpec, live_position: str | None) -> None:
        """Pin a pass that is about to begin, in place of any other."""
        self.discard()
        pin_id = uuid.uuid4().hex
        self.store.filesystem.create_dir(f"{self.folder}/{pin_id}", recursive=True)
        body = {
            "id": pin_id,
            "fingerprint": self.fingerprint,
            "live_position": live_position,
            "epoch": asdict(epoch),
        }
        write_sealed(self.store.filesystem, self._pin, body)
        self.store.may_have_backlog = True

    def follow(self, uid: str, spec: EpochSpec, inputs: Sequence[str]) -> tuple[EpochSpec, bool]:
        """Pin the pass of a stage that follows others, or find it pinned.

        Args:
            uid: the stage.
            spec: what it would do now.
            inputs: names of the files that it reads.

        Returns:
            What it is to do, and whether an earlier run has begun it over these very files.
        """
        folder = self.reports_of(uid)
        path, filesystem = f"{folder}/{_PASS}", self.store.filesystem
        if exists(filesystem, path):
            try:
                body = read_sealed(filesystem, path)
                if body["inputs"] == sorted(inputs):
                    return EpochSpec.from_json(body["epoch"]), True
            except (ValueError, TypeError, KeyError):  # damaged, or of a version that knew other kinds of epochs
                pass
        delete_quietly(filesystem, folder)
        filesystem.create_dir(folder, recursive=True)
        body = {"epoch": asdict(spec), "inputs": sorted(inputs)}
        write_sealed(filesystem, path, body)
        return spec, False

    def reports_of(self, uid: str) -> str:
        """Where the tasks of a stage that follows others leave their reports; something must be pinned."""
        return f"{self.reports}/{uid}"

    def discard(self) -> None:
        """Forget the pin and the reports; files that they name become garbage."""
        self.store.discard_backlog()

    def finished(self, uid: str, output: OutputPlace, *, follows: bool = False) -> dict[ShardId, ShardReport]:
        """One report per shard that an earlier run finished and whose files are all there, whole.

        Args:
            uid: the stage.
            output: where its tasks stage rows.
            follows: it takes rows from other stages.
        """
        pool = StatePool(self.store.filesystem, self.store.pool(uid))
        found: dict[ShardId, ShardReport] = {}
        reports = self.reports
        if reports is None:
            return found
        if follows:
            reports = self.reports_of(uid)
        filesystem, folder = output.filesystem, output.folder or ""  # without a folder no file is staged

        def whole(info: fs.FileInfo) -> ShardReport | None:
            try:
                report = ShardReport.from_bytes(unseal(read_bytes(filesystem_of_reports, info.path)))
                for file in report.files:
                    pool.check(file)
                check_staged(filesystem, folder, report.output)
                sizes = [filesystem.get_file_info(f"{folder}/{file.name}").size for file in report.output]
            except Exception:  # a damaged report or file: that shard is simply computed again
                return None
            return report if sizes == [file.size_bytes for file in report.output] else None

        filesystem_of_reports = self.store.filesystem
        infos = [info for info in list_files(filesystem_of_reports, reports) if info.path.endswith(REPORT_SUFFIX)]
        with ThreadPoolExecutor(_READERS) as readers:
            for report in readers.map(whole, sorted(infos, key=lambda info: info.path)):
                if report is not None:
                    found.setdefault(report.shard, report)
        return found
