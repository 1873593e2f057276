"""Where keys begin in a sorted batch."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import accumulate, groupby
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.runtime.operators.columnar import key_batches
from mixedmode.runtime.operators.columnar.key_batches import key_rows, whole_keys
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.state.keys.keys import KeyCodec

NAN = float("nan")
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [None, None, -5, -5, 0, 7, 7, 7]),
    "text": (pa.string(), [None, "", "", "a", "a", "ab", "b", "b"]),
    "binary": (pa.binary(), [b"", b"", b"a", b"a\x00", b"a\x00", b"b", b"b", b"c"]),
    "float": (pa.float64(), [None, -1.0, -0.0, 0.0, -0.0, 1.5, NAN, NAN]),
    "small float": (pa.float32(), [None, None, -0.0, 0.0, 1.5, NAN, NAN, NAN]),
    "bool": (pa.bool_(), [None, None, False, False, False, True, True, True]),
    "decimal": (pa.decimal128(9, 2), [None, Decimal("-1.00"), *[Decimal("0.50")] * 2, *[Decimal("9.99")] * 4]),
    "time": (pa.timestamp("us", "UTC"), [None, -1, -1, 0, 0, 5, 6, 6]),
    "least time": (pa.timestamp("us"), [-(2**63), -(2**63), -1, 0, 0, 5, 6, 2**63 - 1]),
    "day": (pa.date32(), [-1, -1, 0, 0, 0, 5, 6, 6]),
    "duration": (pa.duration("us"), [None, -1, -1, 0, 0, 5, 6, 6]),
    "struct": (pa.struct([("a", pa.float64())]), [{"a": 0.0}, {"a": -0.0}, {"a": 1.0}, *[{"a": NAN}] * 5]),
    "list": (pa.list_(pa.int32()), [None, [], [], [1], [1], [1, 2], [2], [2]]),
}  # fmt: skip


def sorted_batch(names: list[str], groups: list[int]) -> tuple[pa.RecordBatch, KeyCodec]:
    """A batch of these columns in each key group, and the codec of their keys."""
    schema = pa.schema([pa.field(name, COLUMNS[name][0]) for name in names])
    columns = {name: pa.array(COLUMNS[name][1] * len(groups), COLUMNS[name][0]) for name in names}
    rows = len(COLUMNS[names[0]][1])
    column = pa.array([group for group in groups for _ in range(rows)], pa.int32())
    return pa.RecordBatch.from_pydict({KEY_GROUP_COLUMN: column, **columns}), KeyCodec(schema)


@pytest.mark.parametrize(
    "names", [*([name] for name in COLUMNS), ["int", "float"], ["text", "struct"], ["bool", "int"]], ids=" and ".join
)
def test_a_key_begins_where_its_bytes_change(names: list[str]) -> None:
    """Of each type that a key can have: nulls are one key, zeros of both signs are, NaN is; not across key groups."""
    batch, codec = sorted_batch(names, [3, 3 + 1, 9])
    groups = batch.column(KEY_GROUP_COLUMN).to_pylist()
    encoded = list(zip(groups, codec.encode_columns([batch.column(name) for name in names]).to_pylist(), strict=True))
    wanted = [(key, len(list(rows))) for key, rows in groupby(encoded)]
    ends = list(accumulate(count for _, count in wanted))
    rows = key_rows(batch, tuple(names), codec)
    found = list(zip(rows.groups[rows.starts].tolist(), rows.keys.to_pylist(), strict=True))
    assert found == [key for key, _ in wanted]
    assert [*rows.starts.tolist(), len(groups)] == [0, *ends]


@pytest.mark.parametrize("looks_ahead", [True, False])
@pytest.mark.parametrize("rows_a_piece", [1, 7, 100])
@pytest.mark.parametrize("rows_a_batch", [1, 2, 3, 5, 24])
def test_keys_are_whole_however_rows_are_cut_into_batches(
    monkeypatch: pytest.MonkeyPatch, rows_a_batch: int, rows_a_piece: int, looks_ahead: bool
) -> None:
    """No key is in two pieces, and none is lost, also where a batch holds a part of one, or batches are gathered."""
    monkeypatch.setattr(key_batches, "_SMALL_BYTES", 1 << 20 if looks_ahead else 0)
    batch, codec = sorted_batch(["float"], [1, 2, 7])
    expected = key_rows(batch, ("float",), codec)
    parts = iter([batch.slice(at, rows_a_batch) for at in range(0, batch.num_rows, rows_a_batch)])
    found = [
        (int(piece.groups[start]), key, stop - start)
        for piece in whole_keys(parts, ("float",), codec, rows_a_piece)
        for start, stop, key in zip(
            piece.starts, [*piece.starts[1:], piece.batch.num_rows], piece.keys.to_pylist(), strict=True
        )
    ]
    ends = [*expected.starts[1:], batch.num_rows]
    assert found == [
        (int(expected.groups[start]), key, stop - start)
        for start, stop, key in zip(expected.starts, ends, expected.keys.to_pylist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("small_bytes", "pieces", "pulled"), [(1 << 20, [24], [1]), (0, [23, 1], [0, 1])], ids=["few rows", "many rows"]
)
def test_few_rows_are_one_piece(
    monkeypatch: pytest.MonkeyPatch, small_bytes: int, pieces: list[int], pulled: list[int]
) -> None:
    """The last key of the only batch does not wait for another one; behind a large batch nothing is read ahead."""
    monkeypatch.setattr(key_batches, "_SMALL_BYTES", small_bytes)
    batch, codec = sorted_batch(["int"], [1, 2, 7])
    batch = batch.set_column(1, "int", pa.array(range(batch.num_rows), pa.int64()))
    ends: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        ends.append(1)

    found = [(piece.batch.num_rows, sum(ends)) for piece in whole_keys(batches(), ("int",), codec)]
    assert found == list(zip(pieces, pulled, strict=True))


def test_without_key_columns_a_key_group_is_a_key() -> None:
    """The key of a grouping by nothing has no bytes."""
    batch, codec = sorted_batch(["int"], [0, 1])
    rows = key_rows(batch, (), codec)
    assert rows.keys.to_pylist() == [b"", b""]
    assert rows.starts.tolist() == [0, 8]
