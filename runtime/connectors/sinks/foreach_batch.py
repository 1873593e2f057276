"""``foreachBatch``: a user's function over the rows of each epoch.

Stock Spark calls the function once per micro-batch, while the micro-batch is processed.  Here it is called when the
checkpoint that covers the epoch is complete, as an epoch that is processed again after a failure may hold other rows.
A checkpoint that covers several epochs makes several calls, in the order of the epochs; rows of which a later one
replaces an earlier one (aggregates in update mode), or all earlier ones (complete mode), come in one call.

Invariants:
- The ids of the calls are fixed when the checkpoint is cut, and only grow.  After a failure the same id comes with the
  same rows, so a function that is idempotent by its id is exactly-once.
- A call that has left its marker is not made again; one that has not is made before any later call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import MixedModeError, PlanError, UserCodeError
from ...jvm.user_frames import UserFrames
from ...support.user_functions import ORDINARY, kind_that_waits, name_of, why_not_called_with
from .base import Guarantee
from .deliveries import Deliveries
from .per_checkpoint import PerCheckpointSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ..transaction import SinkTransaction


_WANTED = "give it a function of (DataFrame, int)"


class ForeachBatchSink(PerCheckpointSink):
    """Calls ``function(rows, id)`` for each epoch that has rows, when the checkpoint that covers it is complete."""

    name = "foreachBatch"
    guarantee: Guarantee = "exactly-once"

    def __init__(
        self, schema: StructType, function: Callable[[DataFrame, int], None], deliveries: Deliveries | None = None
    ) -> None:
        super().__init__(schema, deliveries)
        self._function = function
        self.merges_epochs = self.deliveries.key is not None or self.deliveries.whole is not None

    def check_columns(self, spark: SparkSession) -> None:
        """Raise PlanError if the output's columns cannot be staged."""
        super().check(spark)

    def check(self, spark: SparkSession) -> None:
        self.check_columns(spark)
        kind = kind_that_waits(self._function)
        if kind is not None:
            raise PlanError(
                f"foreachBatch: {name_of(self._function)} is {kind}: a call does not run its body; {ORDINARY}"
            )
        if inspect.isclass(self._function) and self._function.__module__ == "builtins":
            raise PlanError(f"foreachBatch was given the class {name_of(self._function)}; {_WANTED}")
        misfit = why_not_called_with(self._function, None, 0)
        if misfit is not None:
            raise PlanError(f"foreachBatch calls {name_of(self._function)}(rows, id), but {misfit}; {_WANTED}")

    def hand_over_transaction(self, transaction: SinkTransaction) -> None:
        marks = self.marks(transaction)
        calls = marks.calls_left()
        for call in calls:
            self.guard()
            rows = self.deliveries.rows(self.frame(call.files_of(transaction.files)), call.epochs)
            self._call(rows, call.id)
            if call is not calls[-1]:  # the last one has the marker of the transaction
                marks.mark(call)

    def _call(self, rows: DataFrame, number: int) -> None:
        self.call_in_hand = f"function {name_of(self._function)} of foreachBatch, batch {number}"
        try:
            self._function(rows, number)
        except MixedModeError:
            raise
        except (Exception, SystemExit) as error:  # sys.exit() there is not meant for the thread that commits
            frames = UserFrames.since(None if error.__traceback__ is None else error.__traceback__.tb_next)
            raise UserCodeError(frames.description(error, self.call_in_hand)) from error
        finally:
            self.call_in_hand = None
        self.guard()  # before it is marked as delivered, or its files go: the run may have been given up meanwhile

    def describe(self) -> str:
        return (
            "foreachBatch: same id, same rows after a failure (exactly-once if the function is idempotent by the id), "
            f"called when a checkpoint completes{self.what_is_called_for}"
        )

    @property
    def what_is_called_for(self) -> str:
        """The end of :meth:`describe`."""
        # The rows of one epoch have a key once, whatever columns are left of it.
        facts = replace(self.deliveries, key_is_gone=False).describe()
        return f"{'' if self.merges_epochs else ', once for each epoch'}{f'; {facts}' if facts else ''}"
