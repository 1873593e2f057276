"""Reports where each micro-batch began and ended in its sources, as Spark tells it afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from ...metrics.events.facts import FactListener, OffsetsKnown, OffsetsRead
from ...spark_io.query_progress import executed_batches
from ...spark_io.spark_sources import log_numbers
from ...spec import JobSpec
from ...support.ids import BatchId, EpochNumber

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
    _unreported: dict[BatchId, EpochNumber] = field(init=False, default_factory=dict)

    def read_in(self, batch_id: BatchId, epoch: EpochNumber) -> None:
        """An epoch has read a micro-batch."""
        self._unreported[batch_id] = epoch
        if len(self._unreported) > _MOST:
            del self._unreported[min(self._unreported)]

    def report(self, query: StreamingQuery | None) -> None:
        """Tell what Spark knows by now."""
        if query is None or not self._unreported or not self._names:
            return
        known = executed_batches(query, min(self._unreported))
        for batch_id, sources in known.items():
            epoch = self._unreported.pop(batch_id, None)
            if epoch is not None:
                self.listener.on(OffsetsKnown(epoch, dict(zip(self._names, map(_offsets, sources), strict=False))))
        # What is told in order and has not come before these never does: Spark has forgotten it.
        for batch_id in [one for one in self._unreported if one < max(known, default=one)]:
            del self._unreported[batch_id]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The live inputs in the order of Spark's sources; empty: they do not correspond."""
        live, inputs = self.job.live, self.job.live_inputs
        numbers = () if live is None else log_numbers(live)
        return tuple(one.name for one in inputs) if numbers == tuple(range(len(inputs))) else ()


def _offsets(source: Mapping[str, Any]) -> OffsetsRead:
    start, end, latest = (source.get(f"{name}Offset") for name in ("start", "end", "latest"))
    return OffsetsRead(start, end, latest, dict(source.get("metrics") or {}))
