"""``foreachBatch``: a user's function over the rows of each checkpoint.

Stock Spark calls the function once per micro-batch; a micro-batch that is processed again after a failure may hold
other rows here, because our checkpoints do not coincide with micro-batches.  So the function gets the rows of a whole
checkpoint under the checkpoint's id: after a failure the same id comes with the same rows.  A function that is
idempotent by id is therefore exactly-once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....errors import MixedModeError, PlanError, UserCodeError
from ...platform.user_frames import UserFrames
from .deliveries import Deliveries
from .per_checkpoint import DeliverySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ..transaction import SinkTransaction


class ForeachBatchSink(DeliverySink):
    """Calls ``function(rows, id)`` when a checkpoint completes; not called for a checkpoint without rows."""

    name = "foreachBatch"
    guarantee = "exactly-once"

    def __init__(
        self, schema: StructType, function: Callable[[DataFrame, int], None], deliveries: Deliveries | None = None
    ) -> None:
        super().__init__(schema, deliveries)
        self._function = function

    def check(self, spark: SparkSession) -> None:
        super().check(spark)
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):
            return  # what is not written in Python does not say
        try:
            signature.bind(None, 0)
        except TypeError as error:
            name = getattr(self._function, "__qualname__", type(self._function).__name__)
            raise PlanError(
                f"foreachBatch calls {name}(rows, id), but its arguments are {signature} ({error}); give it a function"
                " of (DataFrame, int)"
            ) from error

    def hand_over(self, rows: DataFrame, transaction: SinkTransaction) -> None:
        try:
            self._function(rows, transaction.id)
        except MixedModeError:
            raise
        except Exception as error:
            name = getattr(self._function, "__qualname__", type(self._function).__name__)
            frames = UserFrames.since(None if error.__traceback__ is None else error.__traceback__.tb_next)
            raise UserCodeError(
                frames.told(error, f"function {name} of foreachBatch, batch {transaction.id}")
            ) from error

    def describe(self) -> str:
        return (
            "foreachBatch: same id, same rows after a failure (exactly-once if the function is idempotent by the id), "
            f"called when a checkpoint completes{self.what_is_delivered}"
        )
