"""``limit``: passes on the first rows of all epochs together; later rows move the watermark and are dropped.

All rows are of one key, so one shard has them in their order: by event time where there is a watermark, else as they
have arrived.  Its state is how many rows have gone out.

Invariant: over all epochs no more rows go out than were asked for, and none that came behind one that was dropped.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ...state.keys.keys import KeyCodec
from ...state.keys.registry import StateRegistry
from ..catalyst.columns import quoted
from ..catalyst.types.arrow_types import arrow_schema
from ..support.arrow_columns import typed
from .admission import note_event_time
from .arrival_order import arrival_columns, with_arrival
from .columnar.cells import ShardCells
from .columnar.record_codec import RecordCodec
from .contract import EpochSpec, KeyedOperator, ShardContext
from .emission_watermark import emitted_by_time

#: The one key that all rows have.
_KEY_COLUMN = "__k0"
#: Name of the one state variable.
STATE_NAME = "passed"
_STATE = pa.schema([pa.field("rows", pa.int64(), nullable=False)])


class LimitOperator(KeyedOperator):
    """Hands on the first rows.

    Args:
        uid: id under which the state is stored.
        rows: how many.
        schema: the input's columns, which are the output's.
        event_time: the watermark's column in the input, which need not be in ``schema``; None: there is none.
        follows_a_stage: its rows come from another stage, which says nothing of their order.
    """

    kind = "limit"
    state_values = "record"
    uses_event_time = False
    key_columns = (_KEY_COLUMN,)
    key_schema = pa.schema([pa.field(_KEY_COLUMN, pa.int32())])

    def __init__(
        self, *, uid: str, rows: int, schema: StructType, event_time: str | None, follows_a_stage: bool
    ) -> None:
        self.uid = uid
        self.rows = rows
        self.output_schema = schema
        self.output_arrow_schema = arrow_schema(schema)
        self.event_time = event_time
        self.sort_columns = () if event_time is None else (event_time,)
        self.keeps_arrival = not follows_a_stage
        self.registry = StateRegistry()
        self.slot = self.registry.declare(STATE_NAME, "value", _STATE).slot

    @property
    def key_labels(self) -> tuple[str, ...]:
        """Users give none."""
        return ()

    def describe(self) -> dict[str, Any]:
        """Identity and facts of the stage for explain() and for the check of a checkpoint against the job."""
        return {"operator": self.kind, "uid": self.uid, "key": [], "first rows": self.rows}

    def fingerprint(self) -> str | None:
        """How many rows, and their columns; what they are made of is in the plan of the input."""
        return json.dumps([self.describe(), self.output_schema.json(), self.event_time], sort_keys=True)

    def prepare(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """All rows, with the key."""
        if self.keeps_arrival:
            frame = with_arrival(frame)
        names = [*self.output_schema.fieldNames(), *self.sort_columns, *arrival_columns(frame.columns)]
        return frame.selectExpr(f"0 AS {_KEY_COLUMN}", *map(quoted, dict.fromkeys(names)))

    def prepares_by(self, epoch: EpochSpec) -> Hashable:
        """Nothing."""
        return ()

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch."""
        cells, records, codec = ShardCells(context, self.slot), RecordCodec(list(_STATE)), KeyCodec(self.key_schema)
        group: np.ndarray | None = None
        names: list[bytes] = []
        before = passed = 0
        for batch in rows:
            if batch.num_rows == 0:
                continue
            if group is None:
                first = batch.slice(0, 1)
                group = first.column("__kg").to_numpy()
                names = cells.names(group, codec.encode_columns([first.column(_KEY_COLUMN)]))
                exists, data, offsets = cells.read(names)
                before = passed = int(records.decode(data, offsets)[0][0].as_py()) if exists.any() else 0
            context.counters.rows_in += batch.num_rows
            if self.event_time is not None:
                note_event_time(context.counters, batch.column(self.event_time))
            taken = batch.slice(0, max(0, self.rows - passed))
            if taken.num_rows:
                passed += taken.num_rows
                self._put_out(context, taken)
        if group is not None:
            context.counters.keys += 1
            if passed > before:
                cells.write(group, names, [records.encode([pa.array([passed])])[0].as_py()], [])
        cells.close(timed=False)

    def _put_out(self, context: ShardContext, batch: pa.RecordBatch) -> None:
        schema = self.output_arrow_schema
        columns = list(map(typed, map(batch.column, schema.names), schema.types))
        times = None
        if self.event_time is not None and context.feeds_a_stage:
            times = batch.column(self.event_time)
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        context.emit(rows, emitted_by_time(times, context.epoch.late_watermark_ms, context.epoch.delay_ms))
