"""Partial aggregates by sorting against those of Acero's table of hashes, and the order of keys; no Spark."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.scan.partial_calls import PartialCall, Sums, aggregated
from mixedmode.runtime.tasks.scan import key_order as key_orders
from mixedmode.runtime.tasks.scan import partial_sort
from mixedmode.runtime.tasks.scan.key_order import key_order, order_in_lots, order_of_numbers
from mixedmode.runtime.tasks.scan.partial_runs import merged
from mixedmode.runtime.tasks.scan.partial_sort import RowsToSort
from mixedmode.state.keys.keys import KeyCodec

DECIMAL = pa.decimal128(12, 2)
CALLS = (
    PartialCall("n", "count_all", None, pa.int64()),
    PartialCall("c", "count", "i", pa.int64()),
    PartialCall("si", "sum", "i", pa.int64()),
    PartialCall("as", "sum", "i", pa.float64()),
    PartialCall("lo", "min", "i", pa.int32()),
    PartialCall("sd", "sum", "d", pa.decimal128(22, 2)),
    PartialCall("hd", "max", "d", DECIMAL),
    PartialCall("sf", "sum", "f", pa.float64(), is_rounded=True),
    PartialCall("lf", "min", "f", pa.float64()),
    PartialCall("hf", "max", "f", pa.float64()),
    PartialCall("cf", "count", "f", pa.int64()),
    PartialCall("cd", "count", "d", pa.int64()),
    PartialCall("ht", "max", "t", pa.string()),
    PartialCall("hb", "max", "b2", pa.bool_()),
    PartialCall("ls", "min", "s", pa.timestamp("us", "UTC")),
    PartialCall("sl", "sum", "l", pa.int64()),
    PartialCall("ll", "min", "l", pa.int64()),
    PartialCall("cl", "count", "l", pa.int64()),
    PartialCall("lg", "min", "g", pa.float64()),
    PartialCall("cw", "count", "o", pa.int64()),
)
COLUMNS = {
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "d": (DECIMAL, st.integers(-(10**12) + 1, 10**12 - 1).map(lambda number: Decimal(number).scaleb(-2))),
    # Sums of halves are exact in any order.
    "f": (pa.float64(), st.one_of(st.integers(-9, 9).map(lambda number: number / 2), st.just(float("nan")))),
    "t": (pa.string(), st.text("a\0ä", max_size=2)),
    "b2": (pa.bool_(), st.booleans()),
    "s": (pa.timestamp("us", "UTC"), st.integers(-5, 5)),
    "l": (pa.int64(), st.integers(-(2**40), 2**40)),
    "g": (pa.float64(), st.floats(allow_nan=True).filter(lambda number: number != 0)),
    "o": (pa.float64(), st.just(1.5)),
}
KEYS = {
    "k": (pa.int64(), st.sampled_from([0, -1, 2**62, -(2**63)])),
    "w": (
        pa.string(),
        st.sampled_from(["", "a", "a\0", "long enough to be told apart late", "long enough to be told"]),
    ),
    "b": (pa.bool_(), st.booleans()),
    "p": (pa.decimal128(9, 2), st.sampled_from([Decimal("-1.50"), Decimal("0.01")])),
}


def tables(keys: tuple[str, ...]) -> st.SearchStrategy[pa.Table]:
    """Rows with some keys and all columns, nulls among them."""
    columns = {**{name: KEYS[name] for name in keys}, **COLUMNS}
    rows = st.lists(st.tuples(*[st.none() | values for _, values in columns.values()]), min_size=1, max_size=40)
    schema = pa.schema([(name, data_type) for name, (data_type, _) in columns.items()])
    return rows.map(lambda some: pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in some], schema))


@pytest.mark.parametrize("keys", [("k",), ("w",), ("w", "k"), ("b", "p", "w")])
@pytest.mark.parametrize("are_alone", [False, True])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_sorted_rows_are_aggregated_as_hashed_ones(keys: tuple[str, ...], are_alone: bool, data: st.DataObject) -> None:
    """Whatever nulls, NaNs and batches there are, what comes to a shard adds up to what a table of hashes finds; texts
    may come as dictionaries, in all batches or in some, with few texts or with many."""
    table = data.draw(tables(keys))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), min_size=2, max_size=2)))
    schema = pa.schema(
        [("__kg", pa.int32()), *[(name, KEYS[name][0]) for name in keys], *[(call.name, call.type) for call in CALLS]]
    )
    rows = RowsToSort(schema, keys, keys[-1:], CALLS, 128, are_alone)
    with patch.object(partial_sort, "_MOST_TEXTS", data.draw(st.sampled_from([2, 100]))):
        for start, end in pairwise([0, *cuts, len(table)]):
            some = table.slice(start, end - start)
            if data.draw(st.booleans()):
                at = some.column_names.index("t")
                some = some.set_column(at, "t", some["t"].dictionary_encode())
            if len(some):
                assert rows.add(some.combine_chunks(), Sums())
    taken = rows.taken()
    assert rows.size == 0
    groups = taken.column(0).to_numpy()
    assert (groups[1:] >= groups[:-1]).all()
    found = merged(taken, keys, CALLS).drop_columns(["__kg"])
    wanted = aggregated(table, list(keys), CALLS, Sums())
    assert shown(found) == shown(wanted)
    codec = KeyCodec(pa.schema([KEYS[name] and (name, KEYS[name][0]) for name in keys]))
    encoded = codec.encode_columns([taken.column(name) for name in keys]).to_pylist()
    at = list(zip(groups.tolist(), encoded, strict=True))
    if not are_alone:
        assert at == sorted(set(at))


def shown(table: pa.Table | pa.RecordBatch) -> list[str]:
    """Rows in an order of their own; NaN is a text like others."""
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("are_alone", [False, True])
def test_windows_are_keys(are_alone: bool) -> None:
    """By where they start and end, and another key, whether rows are alone in theirs or not."""
    times = pa.timestamp("us", "UTC")
    window = pa.struct([("start", times), ("end", times)])
    schema = pa.schema([("__kg", pa.int32()), ("w", window), ("k", pa.int64()), ("s", pa.int64())])
    rows = RowsToSort(schema, ("w", "k"), ("k",), (PartialCall("s", "sum", "v", pa.int64()),), 128, are_alone)
    for repeats in (1, 3):
        starts = [0, 10, -10, 0, 10] * repeats
        bounds = [pa.array(values, pa.int64()).view(times) for values in (starts, [one + 10 for one in starts])]
        windows = pa.StructArray.from_arrays(bounds, fields=list(window))
        numbers = list(range(len(starts)))
        assert rows.add(pa.table({"w": windows, "k": [1, 1, 1, 2, 1] * repeats, "v": numbers}), Sums())
        taken = rows.taken()
        assert taken.num_rows == (4 if not are_alone or repeats == 3 else 5)
        found = merged(taken, ("w", "k"), rows.calls)
        sums: dict[tuple[int, int], int] = {}
        for start, key, number in zip(starts, [1, 1, 1, 2, 1] * repeats, numbers, strict=True):
            sums[start, key] = sums.get((start, key), 0) + number
        starts_found = found.column("w").field("start").view(pa.int64()).to_pylist()
        triples = zip(starts_found, found["k"].to_pylist(), found["s"].to_pylist(), strict=True)
        assert {(start, key): number for start, key, number in triples} == sums
        assert found.num_rows == len(sums)


def test_sums_that_may_leave_their_type_are_not_sorted() -> None:
    """A sum of whole numbers that may leave 64 bits is Spark's; of decimals it is for a table of hashes."""
    schema = pa.schema([("__kg", pa.int32()), ("k", pa.int64()), ("x", pa.int64())])
    rows = RowsToSort(schema, ("k",), ("k",), (PartialCall("x", "sum", "v", pa.int64()),), 128)
    with pytest.raises(NotTakenError, match="may leave"):
        rows.add(pa.table({"k": [1, 2], "v": [2**62, 2**62]}), Sums())
    wide = pa.decimal128(28, 0)
    schema = pa.schema([("__kg", pa.int32()), ("k", pa.int64()), ("x", pa.decimal128(38, 0))])
    for value, fits in ((Decimal(2**61), True), (Decimal(2**62), False), (Decimal(2**70), False)):
        rows = RowsToSort(schema, ("k",), ("k",), (PartialCall("x", "sum", "v", pa.decimal128(38, 0)),), 128)
        table = pa.table({"k": [1, 1, 1], "v": pa.array([value] * 3, wide)})
        assert rows.add(table, Sums()) is fits


@pytest.mark.parametrize("calls", [("lf",), ("sf", "lf"), ("hf", "sf")])
def test_no_least_or_greatest_is_taken_of_negative_zeros(calls: tuple[str, ...]) -> None:
    """Spark's answer depends on which zero came first; a sum alone begins with zero, and loses the sign."""
    table = pa.table({"k": [1, 1], "f": [0.0, -0.0]})
    wanted = [call for name in calls for call in CALLS if call.name == name]
    schema = pa.schema([("__kg", pa.int32()), ("k", pa.int64()), *[(call.name, call.type) for call in wanted]])
    with pytest.raises(NotTakenError, match="negative zero"):
        RowsToSort(schema, ("k",), ("k",), wanted, 128).add(table, Sums())
    sums = [call for call in CALLS if call.name == "sf"]
    schema = pa.schema([("__kg", pa.int32()), ("k", pa.int64()), ("sf", pa.float64())])
    for are_alone in (False, True):
        rows = RowsToSort(schema, ("k",), ("k",), sums, 128, are_alone)
        assert rows.add(pa.table({"k": [1], "f": [-0.0]}), Sums())
        assert str(rows.taken()["sf"][0].as_py()) == "0.0"


def test_waiting_decimals_add_up_over_batches() -> None:
    """Batches whose sums fit are not taken together where their sum does not."""
    data_type = pa.decimal128(19, 0)
    schema = pa.schema([("__kg", pa.int32()), ("k", pa.int64()), ("x", pa.decimal128(29, 0))])
    rows = RowsToSort(schema, ("k",), ("k",), (PartialCall("x", "sum", "v", pa.decimal128(29, 0)),), 128)
    table = pa.table({"k": [1], "v": pa.array([Decimal(2**62)], data_type)})
    assert [rows.add(table, Sums()) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("many_alike", [1, 1000])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_keys_are_in_the_order_of_their_bytes(many_alike: int, data: st.DataObject) -> None:
    """Rows of a key are neighbours, and keys are in the order of their encoding, however many are alike at first."""
    names = data.draw(st.permutations(list(KEYS)))[: data.draw(st.integers(1, 3))]
    rows = data.draw(tables(tuple(names)))
    groups = pa.array(np.arange(len(rows), dtype=np.int32) % data.draw(st.integers(1, 3)))
    batch = rows.select(names).add_column(0, "__kg", groups).combine_chunks().to_batches()[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_orders, "_MANY_ALIKE", many_alike)
        found = key_order(batch, names)
    codec = KeyCodec(pa.schema([(name, KEYS[name][0]) for name in names]))
    encoded = codec.encode_columns([batch.column(name) for name in names]).to_pylist()
    at: list[Any] = [(groups[place].as_py(), encoded[place]) for place in found.places.tolist()]
    assert sorted(found.places.tolist()) == list(range(len(rows)))
    assert at == sorted(at)
    assert found.begins.tolist() == [place == 0 or at[place] != at[place - 1] for place in range(len(at))]


@pytest.mark.parametrize("groups", [1, 40])
def test_sorted_runs_are_put_in_order(groups: int) -> None:
    """Runs one after the other, each in order, as the tasks of a scan leave them, come to be one in order."""
    chance = np.random.default_rng(groups)
    runs = []
    for rows in (0, 1, 300, 2000):
        group, key = chance.integers(0, groups, rows).astype(np.int32), chance.integers(-500, 500, rows)
        order = np.lexsort((key, group))
        runs.append(pa.record_batch({"__kg": group[order], "k": key[order]}))
    rows = pa.concat_batches(runs)
    order = key_order(rows, ["k"])
    found = [tuple(row.values()) for row in rows.take(pa.array(order.places)).to_pylist()]
    assert found == sorted(tuple(row.values()) for row in rows.to_pylist())
    assert order.starts.tolist() == [at for at, row in enumerate(found) if at == 0 or row != found[at - 1]]


@pytest.mark.parametrize(
    "numbers",
    [
        np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 5000),
        np.random.default_rng(2).integers(0, 2**64 - 1, 5000, dtype=np.uint64),
        np.random.default_rng(3).integers(-9, 9, 5000).astype(np.int32),
        np.random.default_rng(4).integers(0, 2, 5000).astype(np.uint8),
        np.random.default_rng(5).permutation(np.append(np.arange(3000), 2**62 + np.arange(3000))),
        np.append(np.arange(3000), np.arange(3000)),
        np.array([2**63 - 1, -(2**63), 0] * 1000),
        np.array([5, -5, 5]),
        np.zeros(0, dtype=np.int64),
    ],
    ids=["signed", "unsigned", "few", "bytes", "clusters", "runs", "extremes", "short", "none"],
)
def test_numbers_are_sorted_as_numpy_sorts_them(numbers: np.ndarray) -> None:
    """By their first bits and then by all, or merged: in order, and what is the same as it was; in lots, too."""
    assert order_of_numbers(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()
    for rows_of_lot in (1, 7, 2500) if len(numbers) else ():
        lots = np.arange(len(numbers)) // rows_of_lot
        assert order_in_lots(lots, numbers).tolist() == np.lexsort((numbers, lots)).tolist()
