"""The first row of each key among rows that tasks read by themselves, against a model; without Spark."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.runtime.scan import parquet_scan
from mixedmode.runtime.scan.expressions.values import Value
from mixedmode.runtime.scan.parquet_scan import FilePart, ParquetScan, ScanColumn
from mixedmode.runtime.tasks.scan import row_scan
from mixedmode.runtime.tasks.scan.first_rows import FirstRows
from mixedmode.runtime.tasks.scan.partial_runs import Buckets
from mixedmode.runtime.tasks.scan.row_runs import RowRuns
from mixedmode.runtime.tasks.scan.row_scan import RankedPart, RowScanTask
from pyarrow import fs

TIME = pa.timestamp("us", "UTC")
COLUMNS = {"n": pa.int64(), "s": pa.string(), "ts": TIME, "v": pa.float64()}
SPARK_TYPES = {"n": "bigint", "s": "string", "ts": "timestamp", "v": "double"}
SHARDS, GROUPS = 2, 8

numbers = st.one_of(st.none(), st.integers(-3, 3), st.just(-(2**63)))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaab", "ü"]))
times = st.one_of(st.none(), st.integers(-2, 2).map(lambda second: second * 1_000_001))
one_row = st.tuples(numbers, texts, times, st.floats(allow_nan=False))
#: Files, each a list of row groups.
files = st.lists(st.lists(st.lists(one_row, min_size=1, max_size=12), min_size=1, max_size=3), min_size=1, max_size=3)


def work_of(keys: tuple[str, ...], time: str | None, by_time: bool, keeps_first: bool) -> FirstRows:
    names = {f"__k{place}": name for place, name in enumerate(keys)}
    if keeps_first:
        names |= {f"__b{place}": name for place, name in enumerate(COLUMNS) if name not in keys}
    return FirstRows(
        key_columns=keys,
        group_columns=keys,
        sides=(tuple(COLUMNS.items()),),
        names=tuple(names.items()),
        time=time,
        by_time=by_time,
        has_max=time is not None and not by_time,
        has_time=time is not None,
        keeps_first=keeps_first,
    )


def write(folder: Path, content: Sequence[Sequence[Sequence[tuple[Any, ...]]]]) -> list[Path]:
    paths = []
    for number, groups in enumerate(content):
        paths.append(folder / f"{number}.parquet")
        with pq.ParquetWriter(paths[-1], pa.schema(list(COLUMNS.items()))) as writer:
            for rows in groups:
                columns = [
                    pa.array(column, kind)
                    for column, kind in zip(zip(*rows, strict=True), COLUMNS.values(), strict=True)
                ]
                writer.write_table(pa.table(columns, names=list(COLUMNS)))
    return paths


def scan_task(work: FirstRows, folder: Path, **others: Any) -> RowScanTask:
    """A scan of all columns, whose runs go to the folder."""
    columns = tuple(ScanColumn(name, SPARK_TYPES[name], kind) for name, kind in COLUMNS.items())
    local = fs.LocalFileSystem()
    task = RowScanTask(
        scan=ParquetScan(columns, places="__at"),
        condition=None,
        columns=tuple((name, name) for name in COLUMNS),
        work=work,
        side=0,
        source=local,
        parts=(),
        target=local,
        folder=str(folder),
        name="e",
        buckets=Buckets(SHARDS, GROUPS),
        without=(),
        memory_bytes=1 << 20,
    )
    return replace(task, **others)


def worked(work: FirstRows, folder: Path, paths: Sequence[Path], memory_bytes: int) -> list[dict[str, Any]]:
    """What the operator gets, all shards together; each file is read in two parts, the last files first."""
    of_n, two = Value("column", COLUMNS["n"], (), ("n",)), Value("constant", COLUMNS["n"], (), (2,))
    task = scan_task(
        work,
        folder,
        condition=Value("not", pa.bool_(), (Value("equal", pa.bool_(), (of_n, two)),)),
        memory_bytes=memory_bytes,
        progress_folder=str(folder / "progress"),
        whole_bytes=sum(path.stat().st_size for path in paths),
    )
    if not work.has_places:
        task = replace(task, scan=replace(task.scan, places=None))
    runs: list[str] = []
    tasks = itertools.count()
    for rank, path in reversed(list(enumerate(paths))):
        size = path.stat().st_size
        for start, end in ((size // 2, size), (0, size // 2)):
            part = RankedPart(FilePart(str(path), start, end), rank)
            runs += task.scanned([part], f"{rank}-{start}", next(tasks)).runs
    told = [json.loads(path.read_text()) for path in (folder / "progress").iterdir()]
    assert len(told) == next(tasks), "each task tells how far it is"
    assert sum(one["read"] for one in told) == sum(pq.read_metadata(path).num_rows for path in paths)
    assert sum(one["part"] for one in told) == pytest.approx(1.0)
    read = RowRuns(task.target, (tuple(runs),), work, task.buckets, 1 << 20)
    return [row for shard in range(SHARDS) for batch in read.of_shard(shard) for row in batch.to_pylist()]


def model(work: FirstRows, content: Sequence[Sequence[Sequence[tuple[Any, ...]]]]) -> dict[Any, dict[str, Any]]:
    """By key what the operator is to get of it."""
    kept: dict[Any, list[dict[str, Any]]] = {}
    for groups in content:
        for row in (row for rows in groups for row in rows):
            values = dict(zip(COLUMNS, row, strict=True))
            values["ts"] = pa.scalar(values["ts"], TIME).as_py()
            if values["n"] is None or values["n"] == 2:
                continue  # the condition is not true
            key = tuple(values[name] for name in work.key_columns)
            kept.setdefault((key, values["ts"]) if work.by_time else (key,), []).append(values)
    found = {}
    for key, rows in kept.items():
        # Stable: rows of one time stay as they have come.
        first = rows[0]
        if work.time is not None:
            first = sorted(rows, key=lambda one: (one["ts"] is not None, one["ts"]))[0]
        found[key] = {prepared: first[name] for prepared, name in work.names} | {"__rows": len(rows)}
        if work.has_max:
            found[key]["__max_ts"] = max((one["ts"] for one in rows if one["ts"] is not None), default=None)
        if work.has_time:
            found[key]["__time"] = first["ts"]
    return found


CASES = {
    "a number": work_of(("n",), None, False, True),
    "a text": work_of(("s",), None, False, True),
    "a number, with times": work_of(("n",), "ts", False, True),
    "two columns, with times": work_of(("n", "s"), "ts", False, True),
    "a text, every time": work_of(("s",), "ts", True, True),
    "a number, every time": work_of(("n",), "ts", True, True),
    "a column of times": work_of(("ts",), None, False, True),
    "whole rows of two columns": work_of(("n", "s"), None, False, False),
    "whole rows, with times": work_of(("n", "s"), "ts", False, False),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduces", [True, False])
def test_the_first_row_of_each_key_stays_however_rows_are_cut(name: str, reduces: bool) -> None:
    """With one run a part and with many, whether or not rows are left out before they go to their shards, and how often
    those that are left are looked at again."""
    work = CASES[name]

    @settings(max_examples=12, deadline=None)
    @given(content=files, memory_bytes=st.sampled_from([1 << 20, 64]), at_once=st.sampled_from([1 << 20, 12, 4]))
    def check(content: list[list[list[tuple[Any, ...]]]], memory_bytes: int, at_once: int) -> None:
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            patch.setattr(row_scan, "_SAMPLE", 1 if reduces else 1 << 30)
            patch.setattr(row_scan, "WORTH_REDUCING", 0)
            patch.setattr(row_scan, "_REDUCED_ROWS", at_once)
            patch.setattr(parquet_scan, "_BATCH_ROWS_OF_TEXT", at_once)
            found = worked(work, Path(folder), write(Path(folder), content), memory_bytes)
        groups = [row.pop("__kg") for row in found]
        assert groups == sorted(groups)
        keys = [tuple(row[f"__k{place}"] for place in range(len(work.key_columns))) for row in found]
        by_key = {(key, row["__time"]) if work.by_time else (key,): row for key, row in zip(keys, found, strict=True)}
        assert len(by_key) == len(found)
        assert by_key == model(work, content)
        if work.by_time:  # the operator takes the event times of a key one after the other
            order = [(key, row["__time"] is not None, row["__time"]) for key, row in zip(keys, found, strict=True)]
            runs = [key for place, key in enumerate(keys) if not place or key != keys[place - 1]]
            assert len(runs) == len(set(runs))
            pairs = pairwise(order)
            assert all(one[0] != other[0] or one[1:] < other[1:] for one, other in pairs)

    check()


@pytest.mark.parametrize("name", ["a number", "a number, with times", "two columns, with times"])
def test_what_is_left_of_reduced_rows_waits_for_more_of_its_keys(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has one run then, and each row counts once."""
    monkeypatch.setattr(parquet_scan, "_BATCH_ROWS_OF_TEXT", 12)
    monkeypatch.setattr(row_scan, "_SAMPLE", 12)
    monkeypatch.setattr(row_scan, "_REDUCED_ROWS", 20)
    rows = [(place % 3 - 1, "ab"[place % 2], (place * 7) % 11 * 1_000_000, float(place)) for place in range(144)]
    content = [[rows[at : at + 12] for at in range(0, len(rows), 12)]]
    found = worked(CASES[name], tmp_path, write(tmp_path, content), 1 << 20)
    by_key = {tuple(row[f"__k{place}"] for place in range(len(CASES[name].key_columns))): row for row in found}
    assert {(key,): {**row, "__kg": 0} for key, row in by_key.items()} == {
        key: {**row, "__kg": 0} for key, row in model(CASES[name], content).items()
    }
    assert len(list(tmp_path.glob("*.run"))) == 2, "each half of the file has a task"


def test_a_shard_that_nobody_asks_for_has_no_rows(tmp_path: Path) -> None:
    """What an earlier run has finished is not written."""
    work = CASES["a number"]
    paths = write(tmp_path, [[[(number, "", 0, 0.0) for number in range(100)]]])
    task = scan_task(work, tmp_path)
    part = RankedPart(FilePart(str(paths[0]), 0, paths[0].stat().st_size), 0)
    counts = {}
    for without in ((), (0,)):
        runs = replace(task, without=without).scanned([part], f"a{len(without)}").runs
        read = RowRuns(task.target, (runs,), work, task.buckets, 1 << 20)
        counts[without] = [sum(batch.num_rows for batch in read.of_shard(shard)) for shard in range(SHARDS)]
    assert sum(counts[()]) == 100
    assert counts[(0,)] == [0, counts[()][1]]
