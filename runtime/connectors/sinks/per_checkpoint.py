"""Rows handed over when their checkpoint is complete, and markers that remember which calls have returned.

Invariants:
- The same id always comes with the same rows: they are read from the staged files themselves, which are kept until all
  of the checkpoint has been handed over.
- Which rows that are, of those that the epochs since the last checkpoint have staged, :mod:`.deliveries` says.
- A marker is written between a call's return and the first removal.  A crash in between repeats the call, so a
  receiver that is idempotent by the id has every row exactly once, any other at least once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ....errors import CheckpointError
from ..delivery_marks import DeliveryMarks
from ..sink_calls import epochs_of
from ..transaction import SinkTransaction
from .base import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PerCheckpointSink(Sink):
    """Hands a checkpoint's rows over when it completes; nobody is called for a checkpoint without rows."""

    @property
    def what_is_delivered(self) -> str:
        """The end of :meth:`describe`."""
        facts = self.deliveries.describe()
        return f"; {facts}" if facts else ""

    @abstractmethod
    def hand_over_transaction(self, transaction: SinkTransaction) -> None:
        """Give a checkpoint's rows away, those that :meth:`marks` says are left; called again after a failure."""

    def marks(self, transaction: SinkTransaction) -> DeliveryMarks:
        """What of a transaction has been handed over."""
        return DeliveryMarks(self.staging.filesystem, self.staging.path, transaction)

    def commit(self, transaction: SinkTransaction) -> None:
        files = transaction.files
        if not files:
            return
        marks = self.marks(transaction)
        left = marks.files_left()
        if left:
            for file in left:
                if not self.staging.is_staged(file):
                    raise CheckpointError(
                        f"transaction {transaction.id} names {file.name}, which is not in {self.staging.path} and was"
                        " not delivered: somebody removed it; restore it, or use a new checkpointLocation"
                    )
            self.hand_over_transaction(transaction.model_copy(update={"files": left}))
            marks.mark()
        self.staging.discard(files)


class DeliverySink(PerCheckpointSink):
    """One that hands all rows over together, as a frame."""

    @abstractmethod
    def hand_over(self, rows: DataFrame, transaction: SinkTransaction) -> None:
        """Give a checkpoint's rows away; may be called again for the same transaction, with the same rows."""

    def hand_over_transaction(self, transaction: SinkTransaction) -> None:
        rows = self.deliveries.rows(self.frame(transaction.files), epochs_of(transaction.files))
        self.hand_over(rows, transaction)
