"""The sorted pass that a shard's task belongs to: which shards are done, reports, progress, pauses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyarrow import fs

from ....state.keys.keygroups import ShardId
from ...storage.checksummed import seal
from ...storage.filesystem import write_atomically
from ...support.failpoints import failpoint
from ..report import REPORT_SUFFIX, ShardReport
from .pass_pause import PauseMarker


@dataclass(frozen=True)
class PassContext:
    """The pass, as tasks see it."""

    #: Folder for live progress; None: no live progress.
    progress_folder: str | None = None
    #: Reports of shards that are done, by an earlier run of the same pinned pass or before a pause, by shard.
    finished: tuple[tuple[ShardId, bytes], ...] = ()
    #: Where finished attempts leave their reports for a restarted driver; None: nowhere.
    report_folder: str | None = None
    #: Tells that no shard is to be begun; None: nobody does.
    pause: PauseMarker | None = None

    @property
    def is_held(self) -> bool:
        """True while no shard is to be begun."""
        return self.pause is not None and self.pause.is_there

    @property
    def done(self) -> frozenset[ShardId]:
        """The shards that are done."""
        return frozenset(shard for shard, _ in self.finished)

    def report_of(self, shard: ShardId) -> bytes | None:
        """The report of a shard that is done; None: it is not."""
        return dict(self.finished).get(shard)

    def and_done(self, reports: Iterable[ShardReport]) -> PassContext:
        """The pass when more shards are done."""
        done = self.done
        more = [(report.shard, report.to_bytes()) for report in reports if report.shard not in done]
        return replace(self, finished=(*self.finished, *more))

    def keep(self, report: ShardReport, filesystem: fs.FileSystem) -> None:
        """Leave a report for a restarted driver."""
        if self.report_folder is not None:
            path = f"{self.report_folder}/{report.attempt}{REPORT_SUFFIX}"
            write_atomically(filesystem, path, seal(report.to_bytes()))
            failpoint("task-after-report-file")


#: Of an epoch of the stream.
NO_PASS = PassContext()
