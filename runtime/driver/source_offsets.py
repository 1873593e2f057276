"""Where each micro-batch began and ended in its sources, as Spark tells when it is done with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..metrics.listeners import FactListener, OffsetsKnown, OffsetsRead
from ..platform.spark_sources import log_numbers

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from ..spec import JobSpec

#: Micro-batches that Spark is asked about; it forgets older ones, too.
_MOST = 100


@dataclass
class SourceOffsets:
    """Tells the offsets of epochs that read live sources, each once.

    Spark knows them when it has committed the micro-batch, which is after the epoch, so whoever has time asks.

    Args:
        job: whose sources they are.
        listener: is told.
    """

    job: JobSpec
    listener: FactListener
    #: Epochs whose offsets are not told yet, by micro-batch.
    _untold: dict[int, int] = field(init=False, default_factory=dict)

    def read_in(self, batch_id: int, epoch: int) -> None:
        """An epoch has read a micro-batch."""
        self._untold[batch_id] = epoch
        if len(self._untold) > _MOST:
            del self._untold[min(self._untold)]

    def tell(self, query: StreamingQuery | None) -> None:
        """Tell what Spark knows by now."""
        if query is None or not self._untold or not self._names:
            return
        last = query.lastProgress
        if last is None or last.batchId < min(self._untold):
            return
        for progress in [last] if self._untold.keys() == {last.batchId} else query.recentProgress:
            # While nothing comes Spark tells of that, too, under the number of the next micro-batch.
            epoch = self._untold.pop(progress.batchId, None) if "addBatch" in progress.durationMs else None
            if epoch is not None:
                by_source = [_offsets(source) for source in progress.sources]
                self.listener.on(OffsetsKnown(epoch, dict(zip(self._names, by_source, strict=False))))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The live inputs in the order of Spark's sources; empty: they do not correspond."""
        live, inputs = self.job.live, self.job.live_inputs
        numbers = () if live is None else log_numbers(live)
        return tuple(one.name for one in inputs) if numbers == tuple(range(len(inputs))) else ()


def _offsets(source: Any) -> OffsetsRead:
    start, end, latest = (_parsed(text) for text in (source.startOffset, source.endOffset, source.latestOffset))
    return OffsetsRead(start, end, latest, dict(source.metrics or {}))


def _parsed(text: Any) -> Any:
    """An offset as JSON says it, or the text that a source has for it."""
    if not isinstance(text, str) or text == "null":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
