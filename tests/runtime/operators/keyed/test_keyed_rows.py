"""Sorted batches are cut into keys, whatever the borders of the batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby, pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN, HandedOverRows, KeyedRows, KeySlices
from mixedmode.state.keys.keys import KeyCodec

KEY_SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
CODEC = KeyCodec(KEY_SCHEMA)
BATCH_SCHEMA = pa.schema([pa.field(KEY_GROUP_COLUMN, pa.int32()), *KEY_SCHEMA, pa.field("n", pa.int64())])

#: (key group, a, b); nulls, empty strings and common prefixes included.
Identity = tuple[int, "int | None", "str | None"]
identities = st.tuples(st.integers(0, 2), st.sampled_from([None, -1, 0]), st.sampled_from([None, "", "x", "xy"]))
inputs = st.lists(identities, max_size=30).map(lambda rows: sorted(rows, key=repr))
cuttings = st.lists(st.integers(0, 50), max_size=6)


def batches(rows: list[Identity], cuts: list[int]) -> list[pa.RecordBatch]:
    """The rows, numbered, cut at the given places (an empty batch where two are equal)."""
    numbered = [(*row, number) for number, row in enumerate(rows)]
    places = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    made = []
    for start, stop in pairwise(places):
        columns = list(zip(*numbered[start:stop], strict=True)) or [(), (), (), ()]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, BATCH_SCHEMA, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=BATCH_SCHEMA))
    return made


def keyed(made: list[pa.RecordBatch], codec: KeyCodec = CODEC, columns: tuple[str, ...] = ("a", "b")) -> KeyedRows:
    return KeyedRows(iter(made), KeySlices(codec, columns), HandedOverRows(numbers_of))


def numbers_of(batch: pa.RecordBatch) -> Iterator[int]:
    """Rows as these tests see them: their numbers."""
    return iter(batch.column("n").to_pylist())


@given(inputs, cuttings)
def test_groups_equal_neighbours(rows: list[Identity], cuts: list[int]) -> None:
    """Each run of rows with one key group and key comes out as one entry with all its rows, in order."""
    expected = [
        (identity[0], identity[1:], [number for number, _ in run])
        for identity, run in groupby(enumerate(rows), key=lambda pair: pair[1])
    ]
    found = [(group, CODEC.decode(key), list(rest)) for group, key, _, _, rest in keyed(batches(rows, cuts))]
    assert found == expected


@given(inputs, cuttings, st.integers(1, 5))
def test_runs_are_cut_by_their_own_rows_and_not_by_the_batches(
    rows: list[Identity], cuts: list[int], most: int
) -> None:
    """A key's rows come in parts of so many, the last one of what is left, wherever its batches end."""
    expected = []
    for identity, run in groupby(enumerate(rows), key=lambda pair: pair[1]):
        numbers = [number for number, _ in run]
        parts = [numbers[start : start + most] for start in range(0, len(numbers), most)]
        expected += [(identity[0], identity[1:], part) for part in parts]
    slices = KeySlices(CODEC, ("a", "b"), most_rows=most)
    entries = KeyedRows(iter(batches(rows, cuts)), slices, HandedOverRows(numbers_of))
    assert [(group, CODEC.decode(key), list(rest)) for group, key, _, _, rest in entries] == expected


@given(st.lists(st.integers(-50, 50), max_size=20).map(sorted), cuttings, st.integers(1, 30))
def test_runs_are_cut_where_windows_of_the_span_begin(times: list[int], cuts: list[int], span: int) -> None:
    """Rows of one span are together, wherever their batches end."""
    schema = pa.schema([(KEY_GROUP_COLUMN, pa.int32()), ("n", pa.int64()), ("t", pa.timestamp("us"))])
    places = [0, *sorted(cut % (len(times) + 1) for cut in cuts), len(times)]
    made = [
        pa.record_batch([[0] * (stop - start), range(start, stop), times[start:stop]], schema=schema)
        for start, stop in pairwise(places)
    ]
    slices = KeySlices(KeyCodec(pa.schema([])), (), "t", span_us=span)
    entries = KeyedRows(iter(made), slices, HandedOverRows(numbers_of))
    expected = [[n for n, _ in run] for _, run in groupby(enumerate(times), key=lambda pair: pair[1] // span)]
    assert [list(rest) for *_, rest in entries] == expected


@given(inputs, cuttings)
def test_values_of_a_key_are_those_of_its_bytes(rows: list[Identity], cuts: list[int]) -> None:
    """The key tuple that a processor gets is what the codec makes of the encoded key."""
    for _, key, values, _, _ in keyed(batches(rows, cuts)):
        assert CODEC.decode(key) == values


def test_zeros_and_nans_are_one_key_each() -> None:
    """Keys whose Python values have several forms come in the form of the codec."""
    codec = KeyCodec(pa.schema([pa.field("f", pa.float64())]))
    columns = {KEY_GROUP_COLUMN: [0, 0, 0], "f": [-0.0, 0.0, math.nan], "n": [0, 1, 2]}
    found = list(keyed([pa.RecordBatch.from_pydict(columns)], codec, ("f",)))
    assert [math.copysign(1, found[0][2][0]), len(found)] == [1, 2]


@given(inputs, cuttings)
def test_unread_rows_are_skipped(rows: list[Identity], cuts: list[int]) -> None:
    """A consumer that leaves rows of a key unread still gets every key, at its first row."""
    expected = [(identity[0], identity[1:]) for identity, _ in groupby(rows)]
    found, firsts = [], []
    for group, _, values, _, rest in keyed(batches(rows, cuts)):
        found.append((group, values))
        firsts.append(next(rest))
    assert found == expected
    assert firsts == [next(number for number, _ in run) for _, run in groupby(enumerate(rows), key=lambda p: p[1])]


def test_no_row_read_at_all() -> None:
    """Keys can be walked without touching their rows."""
    rows: list[Identity] = [(0, 1, "x"), (0, 1, "x"), (1, None, None)]
    assert [values for _, _, values, _, _ in keyed(batches(rows, [1]))] == [(1, "x"), (None, None)]


def test_same_key_in_another_group_is_another_entry() -> None:
    """The key group is part of the identity, so shards can never run together."""
    rows: list[Identity] = [(0, 1, "x"), (1, 1, "x")]
    assert [group for group, *_ in keyed(batches(rows, []))] == [0, 1]


def test_huge_key_is_read_batch_by_batch() -> None:
    """Rows of a key are pulled only as they are consumed: one batch ahead at most."""
    pulled = 0

    def source():  # type: ignore[no-untyped-def]
        nonlocal pulled
        for _ in range(100):
            pulled += 1
            yield batches([(0, 1, "x")] * 10, [])[0]

    (*_, rows) = next(iter(KeyedRows(source(), KeySlices(CODEC, ("a", "b")), HandedOverRows(numbers_of))))
    for number in range(1, 25):
        next(rows)
        assert pulled == (number + 9) // 10


def test_without_key_columns_there_is_one_key() -> None:
    """A global stage has the empty key, over all batches."""
    codec = KeyCodec(pa.schema([]))
    rows: list[Identity] = [(0, 1, "x"), (0, 2, "y"), (0, None, None)]
    found = [(key, values, list(rest)) for _, key, values, _, rest in keyed(batches(rows, [1, 2]), codec, ())]
    assert found == [(b"", (), [0, 1, 2])]
