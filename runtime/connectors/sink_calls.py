"""The calls in which a sink's function gets staged rows: their ids, and the epochs whose rows each of them gets.

A checkpoint's cut fixes them, so a call that is repeated after a crash has the same id and the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..support.frozen import Frozen
from ..support.ids import EpochNumber
from .staging import StagedFile, epoch_of


class SinkCall(Frozen):
    """One call of a sink's function: its id, and the epochs whose rows it gets."""

    id: int
    epochs: tuple[int, ...]

    def files_of(self, files: Iterable[StagedFile]) -> tuple[StagedFile, ...]:
        """Those of the files that hold the rows of this call."""
        return tuple(file for file in files if epoch_of(file.name) in self.epochs)


def calls_of(files: Iterable[StagedFile], previous: int, *, merged: bool) -> tuple[SinkCall, ...]:
    """The calls in which a sink's function gets staged rows, in the order of their epochs.

    Args:
        files: what the epochs since the last checkpoint have staged.
        previous: the id of the last call before these.
        merged: one call gets the rows of all epochs; False: each epoch has a call of its own.
    """
    epochs = epochs_of(files)
    groups = [epochs] if merged and epochs else [(epoch,) for epoch in epochs]
    return tuple(SinkCall(id=previous + nth, epochs=group) for nth, group in enumerate(groups, start=1))


def epochs_of(files: Iterable[StagedFile]) -> tuple[EpochNumber, ...]:
    """The epochs that have staged files, in order."""
    return tuple(sorted({epoch_of(file.name) for file in files}))
