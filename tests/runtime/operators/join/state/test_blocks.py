"""Rows as they are stored: every type bit by bit, damage that is found."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from mixedmode.errors import CorruptStateError
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.join.columns import LEFT
from mixedmode.runtime.operators.join.definition import JoinSide
from mixedmode.runtime.operators.join.state.blocks import BlockRows, decode_blocks, encode_blocks
from mixedmode.runtime.operators.join.state.row_pool import RowPool, SideForm
from pyspark.sql.types import NullType, StructField, StructType, VariantType
from row_support import TYPES

MOMENT, DAY = datetime(2024, 2, 29, 1, 2, 3, 4, timezone.utc), date(1, 1, 3)
#: A value of each type.
VALUES: dict[str, Any] = {
    "boolean": True,
    "byte": -1,
    "short": 2,
    "int": -3,
    "long": 2**62,
    "float": -0.0,
    "double": float("nan"),
    "string": "é",
    "binary": b"\x00",
    "decimal": Decimal("-1.250"),
    "date": DAY,
    "timestamp": MOMENT,
    "timestamp_ntz": MOMENT.replace(tzinfo=None),
    "interval": timedelta(days=-3, microseconds=1),
    "array": [1, None],
    "map": [("a", -0.0)],
    "struct": {"a": None, "b": [DAY]},
    "void": None,
    "variant": {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"},
}


def stored(schema: StructType, rows: list[list[Any]]) -> tuple[pa.RecordBatch, RowPool, bytes]:
    """Rows, a pool of them, and one block with all."""
    side = JoinSide(schema, None, None)
    forms = [SideForm(place, side) for place in (0, 1)]
    arrow = arrow_schema(schema)
    arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(arrow)]
    batch = pa.RecordBatch.from_arrays(
        [*arrays, *[pa.nulls(len(rows), field.type) for field in arrow]], [*forms[0].names, *forms[1].names]
    )
    pool, sides = RowPool(forms, batch), np.zeros(len(rows), dtype=np.uint8)
    records = pool.records(np.arange(len(rows)), sides)
    times_us, matched = np.arange(len(rows)), np.arange(len(rows)) % 2 == 1
    (value,) = encode_blocks(BlockRows(np.array([len(rows)]), times_us, sides, matched, records))
    return batch, pool, value


def test_columns_of_every_type_come_back_as_they_were() -> None:
    """Nulls, the sign of a zero, and types that have no order among them."""
    kinds = {name: kind for name, (kind, _) in TYPES.items()} | {"void": NullType(), "variant": VariantType()}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    full = [VALUES[name] for name in kinds]
    batch, pool, value = stored(schema, [full, [None] * len(full), full])
    data = np.frombuffer(value * 2, dtype=np.uint8)
    blocks = decode_blocks(data, np.array([0, len(value), 2 * len(value)]))
    assert blocks.blocks.tolist() == [0, 0, 0, 1, 1, 1]
    assert blocks.matched.tolist() == [False, True, False] * 2
    assert blocks.times_us.tolist() == [0, 1, 2] * 2
    again = pool.with_records(blocks.records)
    # The first of the stored ones, and the last one of those that have just come.
    numbers = np.array([int(blocks.places[3]) + again.first_record, 2, int(blocks.places[1]) + again.first_record])
    for given, found in zip(batch.columns, again.columns(LEFT, numbers), strict=False):
        assert found.type == given.type
        assert repr(found.to_pylist()) == repr(given.take(pa.array([0, 2, 1])).to_pylist())


@pytest.mark.parametrize("damage", ["cut", "longer", "format", "empty"])
def test_a_damaged_block_is_an_error(damage: str) -> None:
    """Never fewer rows."""
    _, _, value = stored(StructType([StructField("c", TYPES["string"][0])]), [["a"], ["b"]])
    damaged = {"cut": value[:-1], "longer": value + b"x", "format": b"\x09" + value[1:], "empty": b""}[damage]
    with pytest.raises(CorruptStateError, match="a join's state entry"):
        decode_blocks(np.frombuffer(damaged, dtype=np.uint8), np.array([0, len(damaged)]))
