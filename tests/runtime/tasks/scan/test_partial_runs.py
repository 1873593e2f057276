"""Partial aggregates and runs of them, against a model in plain Python; no Spark."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from decimal import Decimal, localcontext
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.scan import parquet_scan
from mixedmode.runtime.scan.parquet_scan import FilePart, NotTakenError, ParquetScan, ScanColumn
from mixedmode.runtime.scan.partial_calls import PartialCall
from mixedmode.runtime.scan.partial_scans import PartialScan, ScanKey
from mixedmode.runtime.tasks.scan import partial_scan, partial_sort
from mixedmode.runtime.tasks.scan.key_order import in_order
from mixedmode.runtime.tasks.scan.key_repetition import rows_per_key
from mixedmode.runtime.tasks.scan.partial_hash import ChunksToHash, RowsToHash
from mixedmode.runtime.tasks.scan.partial_runs import Buckets, PartialRuns
from mixedmode.runtime.tasks.scan.partial_scan import PartialScanTask
from mixedmode.runtime.tasks.scan.partial_sort import RowsToSort
from mixedmode.state.keys.keys import KeyCodec
from pyarrow import fs

CALLS = (
    PartialCall("n", "count_all", None, pa.int64()),
    PartialCall("c", "count", "v", pa.int64()),
    PartialCall("s", "sum", "v", pa.int64()),
    PartialCall("f", "sum", "v", pa.float64()),
    PartialCall("lo", "min", "v", pa.int64()),
    PartialCall("hi", "max", "v", pa.int64()),
    PartialCall("d", "sum", "d", pa.decimal128(22, 2)),
    PartialCall("top", "max", "d", pa.decimal128(12, 2)),
    PartialCall("w", "sum", "w", pa.decimal128(38, 3)),
)
COLUMNS = (
    ScanColumn("k", "bigint", pa.int64()),
    ScanColumn("t", "string", pa.string()),
    ScanColumn("v", "bigint", pa.int64()),
    ScanColumn("d", "decimal(12,2)", pa.decimal128(12, 2)),
    ScanColumn("w", "decimal(28,3)", pa.decimal128(28, 3)),
)
SCHEMA = pa.schema([(column.name, column.type) for column in COLUMNS])
#: Limits with which any rows are sorted, hashed together, or hashed chunk by chunk.
WAYS = {
    "sorted": {"_MANY": 1e9, "_MANY_OF_TEXTS": 1e9},
    "hashed": {"_MANY": 0.0, "_MANY_OF_TEXTS": 0.0, "_WORTH_MERGING": 1e9},
    "in chunks": {"_MANY": 0.0, "_MANY_OF_TEXTS": 0.0, "_WORTH_MERGING": 0.0},
}


def scan_task(
    partials: PartialScan, folder: Path, schema: pa.Schema, buckets: Buckets, memory_bytes: int = 1 << 28
) -> PartialScanTask:
    """A task that scans local files; its key group is by all keys."""
    local = fs.LocalFileSystem()
    return PartialScanTask(
        partials=partials,
        source=local,
        parts=(),
        target=local,
        folder=str(folder),
        name="r",
        schema=schema,
        group_columns=tuple(key.name for key in partials.keys),
        buckets=buckets,
        without=(),
        memory_bytes=memory_bytes,
    )


def rows(seed: int, count: int, keys: int, nulls: float) -> list[tuple[Any, ...]]:
    """Random rows of ``COLUMNS``."""
    chance = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if chance.random() < nulls else value

    return [
        (
            maybe(chance.randrange(-keys, keys) * (2**40 + 7)),
            maybe(chance.choice(["", "a", "ä\0b", "zz"])),
            maybe(chance.randrange(-(2**31), 2**31)),
            maybe(Decimal(chance.randrange(-(10**12) + 1, 10**12)).scaleb(-2)),
            maybe(Decimal(chance.randrange(-(10**28) + 1, 10**28)).scaleb(-3)),
        )
        for _ in range(count)
    ]


def modelled(given: list[tuple[Any, ...]], keys: tuple[int, ...]) -> dict[Any, tuple[Any, ...]]:
    """What ``CALLS`` are by key."""
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in given:
        groups[tuple(row[at] for at in keys)].append(row)

    def of(values: list[Any], make: Any) -> Any:
        known = [value for value in values if value is not None]
        return make(known) if known else None

    found = {}
    for key, members in groups.items():
        v, d, w = ([row[at] for row in members] for at in (2, 3, 4))
        count = sum(value is not None for value in v)
        sums = (of(v, sum), of(v, lambda known: float(sum(known))), of(v, min), of(v, max))
        found[key] = (len(members), count, *sums, of(d, sum), of(d, max), of(w, sum))
    return found


@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(300, 3), (300, 400), (40, 10)]),
    nulls=st.sampled_from([0.0, 0.0, 0.2]),
    keys=st.sampled_from([("k",), ("t",), ("t", "k")]),
    parallelism=st.sampled_from([1, 3, 4]),
    memory_bytes=st.sampled_from([1 << 12, 1 << 18, 1 << 28]),
    way=st.sampled_from(["by itself", *WAYS]),
)
def test_runs_have_what_a_model_has(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    shape: tuple[int, int],
    nulls: float,
    keys: tuple[str, ...],
    parallelism: int,
    memory_bytes: int,
    way: str,
) -> None:
    """Whatever rows there are of a key, in whichever way they are aggregated and however they are cut into parts and
    runs, each shard gets its keys' partial aggregates, in order of key group and encoded key."""
    folder = tmp_path_factory.mktemp("runs")
    given = [rows(seed + number, *shape, nulls) for number in range(3)]
    files = []
    for number, some in enumerate(given):
        path = folder / f"{number}.parquet"
        columns = zip(*some, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path, row_group_size=70)
        half = path.stat().st_size // 2
        files += [FilePart(str(path), 0, half), FilePart(str(path), half, path.stat().st_size)]
    schema = pa.schema(
        [("__kg", pa.int32()), *[(key, SCHEMA.field(key).type) for key in keys], *[(c.name, c.type) for c in CALLS]]
    )
    buckets = Buckets(parallelism, 128 if seed % 2 else 100)
    partials = PartialScan(ParquetScan(COLUMNS), tuple(ScanKey(key, key) for key in keys), CALLS)
    local = fs.LocalFileSystem()
    task = scan_task(partials, folder, schema, buckets, memory_bytes)
    with patch.multiple(partial_scan, **WAYS[way]) if way in WAYS else nullcontext():
        paths = tuple(path for number in (0, 1) for path in task.scanned(files[number::2], f"a{number}").runs)
    spill = folder / "spill"
    spill.mkdir()
    runs = PartialRuns(local, paths, schema, buckets, keys, CALLS, max(memory_bytes, 1 << 18), str(spill), None)
    codec = KeyCodec(pa.schema([SCHEMA.field(key) for key in keys]))
    found: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    last = (-1, b"")
    for shard in range(parallelism):
        for batch in runs.of_shard(shard):
            for row in zip(*[column.to_pylist() for column in batch.columns], strict=True):
                key = row[1 : 1 + len(keys)]
                at = (row[0], codec.encode(key))
                assert at >= last
                last = at
                found[key].append(row[1 + len(keys) :])
    with localcontext() as context:  # Python's own sums of decimals are rounded
        context.prec = 60
        wanted = modelled([row for some in given for row in some], tuple(map(SCHEMA.get_field_index, keys)))
        assert {key: merged(parts) for key, parts in found.items()} == wanted


def merged(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The partial aggregates of one key as one."""
    makes = {"sum": sum, "count": sum, "count_all": sum, "min": min, "max": max}
    columns = zip(CALLS, zip(*parts, strict=True), strict=False)
    known = [(call, [value for value in values if value is not None]) for call, values in columns]
    return tuple(makes[call.function](values) if values else None for call, values in known)


@given(
    texts=st.lists(
        st.one_of(
            st.text("a\0b", max_size=12),
            st.text("aä😀", max_size=4).map("the same beginning ".__add__),
            st.text("a\0", max_size=2).map("the same beginning of all".__add__),
        ),
        min_size=1,
        max_size=60,
    ),
    groups=st.integers(1, 3),
    offset=st.integers(0, 3),
)
def test_texts_are_in_the_order_of_their_bytes(texts: list[str], groups: int, offset: int) -> None:
    """Texts that begin alike, end in NULs or are prefixes of one another are sorted as encoded keys are."""
    numbers = [number % groups for number in range(len(texts))]
    whole = pa.record_batch({"__kg": pa.array(numbers, pa.int32()), "t": pa.array(texts)}).slice(offset)
    found = in_order(whole, ("t",)).to_pylist()
    wanted = sorted(whole.to_pylist(), key=lambda row: (row["__kg"], row["t"].encode()))
    assert found == wanted


@pytest.mark.parametrize(("keys", "whole"), [(1_000, 100_000), (100_000, 100_000), (50_000, 1_000_000)])
def test_rows_per_key_are_guessed_from_some(keys: int, whole: int) -> None:
    """The keys of some rows tell about how many all rows have, though some have but a part of them."""
    chance = random.Random(1)
    met = [chance.randrange(keys) for _ in range(whole)]
    wanted = whole / len(set(met))
    some = met[: whole // 4]
    assert rows_per_key(len(some), len(set(some)), whole) == pytest.approx(wanted, rel=0.1)


def test_rows_that_are_not_aggregated_add_up_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most keys have one row, rows go to their shards one by one, and what they add up to is what a model has."""
    calls = CALLS[:-1]  # wide decimals are aggregated by a table of hashes
    asked: list[int] = []
    order_of_groups = partial_sort.order_of_groups

    def watched(groups: pa.Array) -> np.ndarray:
        asked.append(len(groups))
        return order_of_groups(groups)

    monkeypatch.setattr(partial_sort, "order_of_groups", watched)
    for nulls in (0.0, 0.2):
        given = rows(7, 400, 10**6, nulls)
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*given, strict=True), SCHEMA, strict=True)]
        files = []
        for number in range(2):
            path = tmp_path / f"{nulls}-{number}.parquet"
            pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path)
            files.append(FilePart(str(path), 0, path.stat().st_size))
        keys = ("t", "k")
        types = [(key, SCHEMA.field(key).type) for key in keys]
        schema = pa.schema([("__kg", pa.int32()), *types, *[(call.name, call.type) for call in calls]])
        partials = PartialScan(ParquetScan(COLUMNS), tuple(ScanKey(key, key) for key in keys), calls)
        local, buckets = fs.LocalFileSystem(), Buckets(2, 128)
        task = scan_task(partials, tmp_path, schema, buckets)
        paths = (*task.scanned(files[:1], "a").runs, *task.scanned(files[1:], "b").runs)
        runs = PartialRuns(local, paths, schema, buckets, keys, calls, 1 << 28, None, None)
        found: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
        for shard in range(2):
            for batch in runs.of_shard(shard):
                for row in zip(*[column.to_pylist() for column in batch.columns], strict=True):
                    found[row[1:3]].append(row[3:])
        with localcontext() as context:
            context.prec = 60
            wanted = modelled([*given, *given], tuple(map(SCHEMA.get_field_index, keys)))
            assert {key: merged(some) for key, some in found.items()} == {key: one[:-1] for key, one in wanted.items()}
    assert asked == [400] * 4


def test_keys_that_come_back_later_are_aggregated(tmp_path: Path) -> None:
    """A file that begins with one row of each key, and has many more of each, leaves few partial aggregates."""
    keys, times = 120_000, 8
    texts = pa.array([f"key {number}" for number in range(keys)])
    table = pa.table({"t": pa.concat_arrays([texts] * times), "v": pa.array(range(keys * times))})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    columns = (ScanColumn("t", "string", pa.string()), ScanColumn("v", "bigint", pa.int64()))
    calls = (PartialCall("n", "count_all", None, pa.int64()), PartialCall("hi", "max", "v", pa.int64()))
    schema = pa.schema([("__kg", pa.int32()), ("t", pa.string()), ("n", pa.int64()), ("hi", pa.int64())])
    partials = PartialScan(ParquetScan(columns), (ScanKey("t", "t"),), calls)
    local, buckets = fs.LocalFileSystem(), Buckets(1, 128)
    task = scan_task(partials, tmp_path, schema, buckets)
    paths = task.scanned([FilePart(str(path), 0, path.stat().st_size)], "a").runs
    written = sum(Path(one).stat().st_size for one in paths)
    assert written < 2 * 40 * keys  # a row for each that was read would be eight times as many
    runs = PartialRuns(local, paths, schema, buckets, ("t",), calls, 1 << 28, None, None)
    found = pa.Table.from_batches(list(runs.of_shard(0)))
    merged = found.group_by("t").aggregate([("n", "sum"), ("hi", "max")])
    assert merged.num_rows == keys
    assert set(merged["n_sum"].to_pylist()) == {times}
    assert min(merged["hi_max"].to_pylist()) == keys * (times - 1)


@pytest.mark.parametrize(
    ("key", "keys", "memory_bytes", "way"),
    [
        ("number", 40_000, 1 << 28, "sorted"),
        ("number", 5_000, 1 << 28, "hashed"),
        ("number", 5_000, 1 << 21, "sorted"),
        ("number", 50, 1 << 28, "in chunks"),
        ("text", 120_000, 1 << 28, "sorted"),
        ("text", 20_000, 1 << 28, "hashed"),
        ("text", 20_000, 1 << 21, "sorted"),
        ("text", 50, 1 << 28, "in chunks"),
    ],
)
def test_how_often_keys_repeat_says_how_rows_are_aggregated(
    tmp_path: Path, key: str, keys: int, memory_bytes: int, way: str
) -> None:
    """Sorted if few of the rows that memory has room for do, more of numbers than of texts; hashed together if they do,
    but seldom in the rows that are read at once; hashed as they come if they do in those.  A filter that leaves none of
    the first rows does not matter."""
    count = 120_000
    chance = np.random.default_rng(keys)
    numbers = chance.permutation(np.arange(count) % keys)
    column = pa.array(numbers) if key == "number" else pa.array([f"key {number}" for number in numbers])
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": column, "v": numbers}), path)
    of_scan = "bigint" if key == "number" else "string"
    columns = (ScanColumn("k", of_scan, column.type), ScanColumn("v", "bigint", pa.int64()))
    calls = (PartialCall("n", "count_all", None, pa.int64()), PartialCall("s", "sum", "v", pa.int64()))
    schema = pa.schema([("__kg", pa.int32()), ("k", column.type), ("n", pa.int64()), ("s", pa.int64())])
    partials = PartialScan(ParquetScan(columns), (ScanKey("k", "k"),), calls)
    task = scan_task(partials, tmp_path, schema, Buckets(1, 128), memory_bytes)
    tables_of = PartialScan.tables

    def behind_none(partials: PartialScan, *arguments: Any) -> Iterator[pa.Table]:
        for table in tables_of(partials, *arguments):
            yield table.slice(0, 0)
            yield table

    with ExitStack() as watching:
        watching.enter_context(patch.object(PartialScan, "tables", behind_none))
        watching.enter_context(patch.multiple(parquet_scan, _BATCH_ROWS=10_000, _BATCH_ROWS_OF_TEXT=10_000))
        watched = {
            name: watching.enter_context(patch.object(of_way, "taken", autospec=True, side_effect=of_way.taken))
            for name, of_way in (("sorted", RowsToSort), ("hashed", RowsToHash), ("in chunks", ChunksToHash))
        }
        paths = task.scanned([FilePart(str(path), 0, path.stat().st_size)], "a").runs
    assert [name for name, mock in watched.items() if mock.call_count] == [way]
    runs = PartialRuns(fs.LocalFileSystem(), paths, schema, Buckets(1, 128), ("k",), calls, 1 << 28, None, None)
    found = pa.Table.from_batches(list(runs.of_shard(0))).group_by("k").aggregate([("n", "sum"), ("s", "sum")])
    assert found.num_rows == keys
    assert set(found["n_sum"].to_pylist()) == {count // keys}
    assert sum(found["s_sum"].to_pylist()) == int(numbers.sum())


@pytest.mark.parametrize("way", WAYS)
def test_sums_that_may_leave_their_type_stop_a_scan(tmp_path: Path, way: str) -> None:
    """In whichever way rows are aggregated, and before there is a report."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": ["a", "b"] * 10, "v": [2**62] * 20}), path)
    columns = (ScanColumn("k", "string", pa.string()), ScanColumn("v", "bigint", pa.int64()))
    calls = (PartialCall("s", "sum", "v", pa.int64()),)
    schema = pa.schema([("__kg", pa.int32()), ("k", pa.string()), ("s", pa.int64())])
    task = scan_task(PartialScan(ParquetScan(columns), (ScanKey("k", "k"),), calls), tmp_path, schema, Buckets(1, 128))
    with patch.multiple(partial_scan, **WAYS[way]), pytest.raises(NotTakenError, match="may leave"):
        task.scanned([FilePart(str(path), 0, path.stat().st_size)], "a")


def test_rows_that_wait_to_be_sorted_are_not_lost_where_later_ones_cannot_be(tmp_path: Path) -> None:
    """Decimals whose sum leaves 64 bits with the second batch: that one is hashed, and the first is written before."""
    path, decimals = tmp_path / "a.parquet", pa.decimal128(19, 0)
    pq.write_table(pa.table({"k": range(20), "d": pa.array([Decimal(2**59)] * 20, decimals)}), path)
    columns = (ScanColumn("k", "bigint", pa.int64()), ScanColumn("d", "decimal(19,0)", decimals))
    calls = (PartialCall("s", "sum", "d", pa.decimal128(29, 0)),)
    schema = pa.schema([("__kg", pa.int32()), ("k", pa.int64()), ("s", pa.decimal128(29, 0))])
    task = scan_task(PartialScan(ParquetScan(columns), (ScanKey("k", "k"),), calls), tmp_path, schema, Buckets(1, 128))
    with patch.multiple(parquet_scan, _BATCH_ROWS=10):
        paths = task.scanned([FilePart(str(path), 0, path.stat().st_size)], "a").runs
    assert len(paths) == 2
    runs = PartialRuns(fs.LocalFileSystem(), paths, schema, Buckets(1, 128), ("k",), calls, 1 << 28, None, None)
    found = pa.Table.from_batches(list(runs.of_shard(0)))
    assert dict(zip(found["k"].to_pylist(), found["s"].to_pylist(), strict=True)) == dict.fromkeys(range(20), 2**59)


def test_rows_of_no_part_are_left_to_another_task(tmp_path: Path) -> None:
    """Each row group is of the part that has its middle, and of no other, however a file is cut."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": list(range(1000))}), path, row_group_size=100)
    size = path.stat().st_size
    scan = ParquetScan((ScanColumn("k", "bigint", pa.int64()),))
    for step in (1, 97, 1000, size):
        cuts = [*range(0, size, max(step, size // 40)), size]
        parts = [FilePart(str(path), start, end) for start, end in pairwise(cuts)]
        found = [key for part in parts for table in scan.batches(fs.LocalFileSystem(), part) for key in table["k"]]
        assert [key.as_py() for key in found] == list(range(1000))
    with pytest.raises(NotTakenError, match="cannot be read"):
        list(scan.batches(fs.LocalFileSystem(), FilePart(str(tmp_path / "gone"), 0, 1)))
