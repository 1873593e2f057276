"""Chooses how the state of an operator is read, a scan for each of its variables, and has the scan of a join's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ....state.backend.reader import ShardView
from ....state.codec.byte_arrays import data_of, end_to_end, offsets_of
from ....state.keys.registry import StateDescriptor, StateRegistry
from ...checkpoints.metadata import OperatorState
from ...operators.columnar.record_codec import RecordCodec
from ...operators.join.columns import SIDE_NAMES
from ...operators.join.definition import HEADS
from ...operators.join.state.blocks import decode_blocks
from ...operators.join.state.chunks import CHUNK_SLOT, HEAD_SLOT
from ...operators.keyed.keyed_rows import NO_TIME
from .scan_task import RecordScan, RowScan, Shards, known_layout, pieces, struct_of


@dataclass(frozen=True)
class JoinScan(RecordScan):
    """The rows of both sides, each with its side, its event time in microseconds, and its columns in a struct."""

    @property
    def own_schema(self) -> StructType:
        sides = [StructField(name, struct_of(schema)) for name, schema in zip(SIDE_NAMES, self._sides, strict=True)]
        fields = [StructField("side", StringType()), StructField("eventTimeUs", LongType()), *sides]
        return StructType([StructField("value", StructType(fields))])

    @cached_property
    def _sides(self) -> list[pa.Schema]:
        """The columns of each side; stored is a name behind side and place."""
        return [
            pa.schema(
                [
                    field.with_name(field.name.partition(": ")[2])
                    for field in self.descriptor.schema
                    if field.name.startswith(side)
                ]
            )
            for side in SIDE_NAMES
        ]

    def batches(self, view: ShardView) -> Iterator[tuple[list[bytes], list[pa.Array]]]:
        codecs = [RecordCodec(list(schema)) for schema in self._sides]
        for slot in (CHUNK_SLOT, HEAD_SLOT):
            stored = ((key, value, len(value)) for key, cells in view.cells(slot) for value in cells.values())
            for found, values in pieces(stored):
                blocks = decode_blocks(*end_to_end(values))
                for side, (name, codec) in enumerate(zip(SIDE_NAMES, codecs, strict=True)):
                    at = np.flatnonzero(blocks.sides == side)
                    if not len(at):
                        continue
                    records = blocks.records.take(pa.array(blocks.places[at]))
                    columns = [pa.nulls(len(at), pa.struct(list(schema))) for schema in self._sides]
                    if codec.fields:
                        decoded = codec.decode(data_of(records), offsets_of(records))
                        columns[side] = pa.StructArray.from_arrays(decoded, fields=list(self._sides[side]))
                    times_us = blocks.times_us[at]
                    times = pa.array(times_us, pa.int64(), mask=times_us == NO_TIME)
                    values_of = [pa.array([name] * len(at)), times, *columns]
                    names = ["side", "eventTimeUs", *SIDE_NAMES]
                    keys = [found[block] for block in blocks.blocks[at].tolist()]
                    yield keys, [pa.StructArray.from_arrays(values_of, names)]


def scans_of(stored: OperatorState, shards: Shards) -> dict[str, RowScan | RecordScan]:
    """A scan for each state variable."""
    values = known_layout(stored).values
    registry = StateRegistry.from_json(stored.registry)
    if values == "joined":
        # Its other variables are parts of this one.
        return {HEADS: JoinScan(shards, registry.get(HEADS), sessions=True)}

    def scan(item: StateDescriptor) -> RowScan | RecordScan:
        return RowScan(shards, item) if values == "rows" else RecordScan(shards, item, values == "sessions")

    return {item.name: scan(item) for item in registry}
