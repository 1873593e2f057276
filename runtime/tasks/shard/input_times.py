"""Measures how far the event times of each input of a stage go, in the tasks that have the rows anyway."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ...connectors.sources.live_inputs import INPUT_COLUMN
from ...support.arrow_columns import as_micros


class InputTimes:
    """Looks at the rows of a shard as they pass.

    Args:
        column: their event times.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._greatest: dict[int, int | None] = {}

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as they are; those without an input are no input rows."""
        for batch in batches:
            self._look(batch)
            yield batch

    def _look(self, batch: pa.RecordBatch) -> None:
        rows = pa.table({"input": batch.column(INPUT_COLUMN), "time": batch.column(self._column)})
        found = rows.group_by("input").aggregate([("time", "max")])
        times = found["time_max"]
        times_us = as_micros(times)
        for number, time_us in zip(found["input"].to_pylist(), times_us.to_pylist(), strict=True):
            if number is None:
                continue
            known, time_ms = self._greatest.get(number), None if time_us is None else time_us // 1000
            self._greatest[number] = max((one for one in (known, time_ms) if one is not None), default=None)

    @property
    def seen(self) -> tuple[tuple[int, int | None], ...]:
        """Of each input that gave rows its number and the greatest event time in ms; None: no row has one."""
        return tuple(self._greatest.items())
