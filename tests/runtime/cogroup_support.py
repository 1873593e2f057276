"""A shard of a processor over two inputs, epoch by epoch, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.join.columns import LEFT, RIGHT, SIDE_COLUMN, TIME_COLUMN
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.keyed.keyed_rows import INITIAL_STATE_COLUMN, KIND_COLUMN
from mixedmode.runtime.operators.processor.cogroup.cogroup_form import Cogrouped
from mixedmode.runtime.operators.processor.definition import CallingConvention
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from mixedmode.runtime.operators.processor.rows.row_form import Form, RowsForm
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType
from stage_support import EPOCH, OUTPUT, Stage

LEFT_SCHEMA = StructType().add("k", StringType()).add("order", LongType())
RIGHT_SCHEMA = StructType().add("payment", StringType()).add("k", StringType()).add("n", LongType())
FRAME = (
    StructType()
    .add("__k0", StringType())
    .add(SIDE_COLUMN, IntegerType())
    .add(TIME_COLUMN, TimestampType())
    .add("__l0", StringType())
    .add("__l1", LongType())
    .add("__r0", StringType())
    .add("__r1", StringType())
    .add("__r2", LongType())
)
TIME = pa.timestamp("us", "UTC")
INITIAL = pa.struct([("k", pa.string()), ("kept", pa.int64())])
SCHEMA = pa.schema(
    [
        ("__kg", pa.int32()),
        ("__k0", pa.string()),
        (SIDE_COLUMN, pa.int32()),
        (TIME_COLUMN, TIME),
        ("__l0", pa.string()),
        ("__l1", pa.int64()),
        ("__r0", pa.string()),
        ("__r1", pa.string()),
        ("__r2", pa.int64()),
    ]
)
WITH_INITIAL = SCHEMA.append(pa.field(KIND_COLUMN, pa.int32())).append(pa.field(INITIAL_STATE_COLUMN, INITIAL))


@dataclass(frozen=True)
class Given:
    """A row of either input."""

    side: int
    key: str
    time_ms: int | None
    value: int

    def columns(self) -> dict[str, Any]:
        time = None if self.time_ms is None else EPOCH + timedelta(milliseconds=self.time_ms)
        here = {"__kg": 7, "__k0": self.key, SIDE_COLUMN: self.side, TIME_COLUMN: time, KIND_COLUMN: 1}
        if self.side == LEFT:
            return {**here, "__l0": self.key, "__l1": self.value}
        return {**here, "__r0": f"p{self.value}", "__r1": self.key, "__r2": self.value}


def left(key: str, time_ms: int | None, value: int) -> Given:
    return Given(LEFT, key, time_ms, value)


def right(key: str, time_ms: int | None, value: int) -> Given:
    return Given(RIGHT, key, time_ms, value)


def kept(key: str, value: int) -> dict[str, Any]:
    """A row of an initial state."""
    return {"__kg": 7, "__k0": key, KIND_COLUMN: 0, INITIAL_STATE_COLUMN: {"k": key, "kept": value}}


def batches(
    rows: Sequence[Given], order: Sequence[str], rows_each: int, initial: Sequence[dict[str, Any]] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows as a task gets them, by key and then in an order."""
    made = [*(initial or ()), *(row.columns() for row in rows)]
    made.sort(key=lambda row: [_rank(row.get(name)) for name in ("__k0", *order)])
    table = pa.Table.from_pylist(made, SCHEMA if initial is None else WITH_INITIAL)
    return iter(table.combine_chunks().to_batches(max_chunksize=rows_each))


def _rank(value: Any) -> tuple[bool, Any]:
    return value is not None, value if value is not None else 0


def operator(
    processor: Any, *, form: Form | None = None, time_mode: Any = "eventTime", output: StructType = OUTPUT
) -> ProcessorOperator:
    return ProcessorOperator(
        processor,
        uid="stage",
        rows=KeyedInput(FRAME, ("__k0",), StructType().add("k", StringType()), TIME_COLUMN),
        output_schema=output,
        time_mode=time_mode,
        calls=CallingConvention(Cogrouped(form or RowsForm(), LEFT_SCHEMA, RIGHT_SCHEMA)),
    )


class CogroupStage(Stage):
    """One shard."""

    def __init__(self, folder: Path, processor: Any, **of_operator: Any) -> None:
        super().__init__(folder, operator=operator(processor, **of_operator))

    def epoch_of(
        self,
        rows: Sequence[Given],
        style: str = "random",
        *,
        rows_each: int = 3,
        initial: Sequence[dict[str, Any]] | None = None,
        **spec: Any,
    ) -> list[tuple[Any, ...]]:
        """One epoch over the rows."""
        order = self.operator.order_in(EpochSpec(1, style, 0, 0, 0, 0, 0, in_order=spec.get("in_order")))  # type: ignore[arg-type]
        return self.run([], style, source=batches(rows, order, rows_each, initial), **spec)
