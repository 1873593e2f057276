"""A processor in an epoch whose rows come in portions: it lives as long as the epoch, as its state does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import cloudpickle

from ....state.store.files import SortedStateWriter
from ...support.clean_up import take_all
from ..contract import ShardContext
from .run import ProcessorRun
from .user_failure import explain_failure

if TYPE_CHECKING:
    from .definition import ProcessorStage


class OpenProcessor:
    """Runs one processor over one shard.

    Args:
        operator: the stage's.
        context: of the shard, for the whole epoch.
    """

    def __init__(self, operator: ProcessorStage, context: ShardContext) -> None:
        self._operator = operator
        self._run = ProcessorRun(operator, cloudpickle.loads(operator._pickled), context)
        self._has_rows = False
        with _Explained(self):
            self._run.begin()

    def take(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Hand some rows over; what the handlers yield is output before the next ones are asked for."""
        with _Explained(self):
            self._run.take(rows, more=self._has_rows)
            self._run.calls.output.flush()
        self._has_rows = True

    @property
    def unwritten_keys(self) -> int:
        """About how many keys have changed since changes were written."""
        return self._run.live_state.unwritten_keys

    def write_changes(self, writer: SortedStateWriter) -> None:
        """Write what has changed since the last call."""
        self._run.live_state.flush(writer, more=True)

    def finish(self) -> None:
        """Fire the timers that are due, and write the state."""
        with _Explained(self):
            self._run.finish()
        self._run.close()


class _Explained:
    """Tells an exception of user code as the processor's author should read it; the processor is closed then."""

    def __init__(self, epoch: OpenProcessor) -> None:
        self._epoch = epoch

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        run = self._epoch._run
        take_all(run.close)  # what it raises now is not why
        explained = explain_failure(error, self._epoch._operator, run)
        if explained is not error:
            raise explained from error
