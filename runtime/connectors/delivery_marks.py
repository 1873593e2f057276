"""Markers beside staged files: what of a transaction a sink has handed over, so that a restart does not do it again.

A transaction that is handed over by several calls has a marker for each call that has returned, and one for all of it.
Invariant: a marker is written after its call has returned and before any of the files is removed, so a crash repeats
the calls without a marker: at most one, if nobody removes markers.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyarrow import fs

from ..storage.filesystem import exists, write_atomically
from ..support.failpoints import failpoint
from .sink_calls import SinkCall
from .staging import StagedFile, marker_name
from .transaction import SinkTransaction


@dataclass(frozen=True)
class DeliveryMarks:
    """The markers of one transaction.

    Args:
        filesystem: of the folder.
        folder: where the files are staged; the sweep behind the checkpoint takes the markers away.
        transaction: whose they are.
    """

    filesystem: fs.FileSystem
    folder: str
    transaction: SinkTransaction

    @property
    def _of_all(self) -> str:
        return f"{self.folder}/{marker_name('delivered', self.transaction.id)}"

    def _of(self, call: SinkCall) -> str:
        return f"{self._of_all}-call-{call.id:08d}"

    @property
    def is_complete(self) -> bool:
        """Whether all of the transaction has been handed over."""
        return exists(self.filesystem, self._of_all)

    def calls_left(self) -> list[SinkCall]:
        """The calls that have to be made, in order."""
        if self.is_complete:
            return []
        calls = self.transaction.all_calls
        # An only call has the marker of the transaction.
        return [call for call in calls if len(calls) == 1 or not exists(self.filesystem, self._of(call))]

    def files_left(self) -> tuple[StagedFile, ...]:
        """The files whose rows have not been handed over."""
        epochs = {epoch for call in self.calls_left() for epoch in call.epochs}
        return SinkCall(id=self.transaction.id, epochs=tuple(epochs)).files_of(self.transaction.files)

    def mark(self, call: SinkCall | None = None) -> None:
        """Remember that a call has returned; None: all of the transaction has been handed over."""
        failpoint("sink-after-function")
        write_atomically(self.filesystem, self._of_all if call is None else self._of(call), b"")
        failpoint("sink-delivered")
