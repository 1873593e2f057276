"""Two iterators over one sorted pass: whatever the batches are and however they are read, each has its side's rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cogroup_support import LEFT_SCHEMA, RIGHT_SCHEMA, Given, batches, kept, left, right
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mixedmode.runtime.operators.join.columns import LEFT, RIGHT, SIDE_COLUMN, TIME_COLUMN
from mixedmode.runtime.operators.keyed.keyed_rows import KIND_COLUMN, KeyedRows, KeySlices
from mixedmode.runtime.operators.processor.cogroup import cogroup_input
from mixedmode.runtime.operators.processor.cogroup.cogroup_form import Cogrouped
from mixedmode.runtime.operators.processor.frames.frame_form import FramesForm
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from mixedmode.runtime.operators.processor.rows.row_form import RowsForm
from mixedmode.runtime.support.batch_spool import BatchSpool
from mixedmode.state.keys.keys import KeyCodec
from pyspark.sql.types import LongType, StringType, StructType

KEY = pa.schema([("k", pa.string())])
INITIAL_SCHEMA = StructType().add("k", StringType()).add("kept", LongType())
BOTH = (LEFT, RIGHT)
ORDER = (KIND_COLUMN, SIDE_COLUMN, TIME_COLUMN)

#: How a call reads: which side next, and how many of its rows; what is left is skipped.
readings = st.lists(st.tuples(st.sampled_from([LEFT, RIGHT]), st.integers(1, 6)), max_size=6)
rows_of_shards = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([LEFT, RIGHT]), st.integers(0, 9)), max_size=40
).map(lambda made: [Given(side, key, time, number) for number, (key, side, time) in enumerate(made)])


def keyed(form: Cogrouped, source: Iterator[pa.RecordBatch], folder: Path | str, initial: bool = False) -> KeyedRows:
    handed_over = form.input(StructType(), INITIAL_SCHEMA if initial else None, str(folder))
    return KeyedRows(source, KeySlices(KeyCodec(KEY), ("__k0",)), handed_over)


def value_of(side: int, row: Any) -> int:
    """The row's number; its other columns are what they must be."""
    if side == LEFT:
        assert list(row.asDict()) == ["k", "order"]
        return int(row.order)
    assert list(row.asDict()) == ["payment", "k", "n"]
    assert row.payment == f"p{row.n}"
    return int(row.n)


@settings(max_examples=300, deadline=None)
@given(rows_of_shards, st.integers(1, 12), st.lists(readings, min_size=3, max_size=3), st.sets(st.sampled_from("abc")))
@example([left("a", n, n) for n in range(9)] + [right("a", 0, 9)], 2, [[(RIGHT, 1), (LEFT, 9)], [], []], set())
@example([left("a", n, n) for n in range(9)] + [right("a", 0, 9)], 2, [[(LEFT, 1), (RIGHT, 1)], [], []], {"a"})
def test_each_iterator_has_its_sides_rows_in_order(
    tmp_path_factory: Any, rows: list[Given], rows_each: int, how: list[list[tuple[int, int]]], with_initial: set[str]
) -> None:
    """Whichever is asked for first, and however much of it is read, on batches of any size."""
    form, how_of = Cogrouped(RowsForm(), LEFT_SCHEMA, RIGHT_SCHEMA), dict(zip("abc", how, strict=True))
    initial = [kept(key, number) for key in sorted(with_initial) for number in range(3)]
    source, in_order = batches(rows, ORDER, rows_each, initial), sorted(rows, key=lambda row: row.time_ms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cogroup_input, "_MEMORY_BYTES", 100)
        seen = []
        for _, _, (key,), _, sides in keyed(form, source, tmp_path_factory.getbasetemp(), initial=True):
            assert [row.kept for row in sides.initial] == ([0, 1, 2] if key in with_initial else [])
            expected = {side: [row.value for row in in_order if (row.key, row.side) == (key, side)] for side in BOTH}
            seen.append(key)
            assert sides.has_rows() == any(expected.values())
            for side, count in how_of[key]:
                iterator = sides.left if side == LEFT else sides.right
                found = [value_of(side, row) for _, row in zip(range(count), iterator, strict=False)]
                assert found == expected[side][:count]
                del expected[side][:count]
    assert seen == sorted({row.key for row in rows} | with_initial)


def test_left_rows_stream_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in the order in which they come, neither side is put aside, and batches are asked for one by one."""
    monkeypatch.setattr(cogroup_input, "BatchSpool", None)
    rows = [left("a", n, n) for n in range(50)] + [right("a", n, n) for n in range(50)]
    asked = []

    def source() -> Iterator[pa.RecordBatch]:
        for batch in batches(rows, ORDER[1:], 10):
            asked.append(batch.num_rows)
            yield batch

    [entry] = (
        (next(sides.left).order, len(asked), sum(1 for _ in sides.left), len(asked), next(sides.right).n, len(asked))
        for *_, sides in keyed(Cogrouped(RowsForm(), LEFT_SCHEMA, RIGHT_SCHEMA), source(), tmp_path)
    )
    assert entry == (0, 1, 49, 6, 0, 6)


def test_left_rows_that_are_passed_over_wait_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right ones first: left ones before them stay in memory up to a bound, the others go to a file without a name."""
    monkeypatch.setattr(cogroup_input, "_MEMORY_BYTES", 1000)
    spools: list[BatchSpool] = []

    class Watched(BatchSpool):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            spools.append(self)

    monkeypatch.setattr(cogroup_input, "BatchSpool", Watched)
    rows = [left("a", n, n) for n in range(500)] + [right("a", 0, 7), left("b", 0, 1), right("b", 0, 2)]
    found = [
        (key, [row.n for row in sides.right], [row.order for row in sides.left])
        for _, _, (key,), _, sides in keyed(
            Cogrouped(RowsForm(), LEFT_SCHEMA, RIGHT_SCHEMA), batches(rows, ORDER[1:], 10), tmp_path
        )
    ]
    assert found == [("a", [7], list(range(500))), ("b", [2], [1])]
    assert [spool.is_on_disk for spool in spools] == [True, False]  # b's one row is put aside, too
    assert list(tmp_path.iterdir()) == []


def test_what_is_put_aside_and_not_read_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next key's rows are right where a handler reads some rows on the disk, or none at all."""
    monkeypatch.setattr(cogroup_input, "_MEMORY_BYTES", 0)
    rows = [one for key in "abc" for one in ([left(key, n, n) for n in range(20)] + [right(key, 0, 5)])]
    found = []
    for number, (*_, sides) in enumerate(
        keyed(Cogrouped(RowsForm(), LEFT_SCHEMA, RIGHT_SCHEMA), batches(rows, ORDER[1:], 4), tmp_path)
    ):
        found.append([row.n for row in sides.right] + [row.order for row in islice(sides.left, number)])
    assert found == [[5], [5, 0], [5, 0, 1]]


@pytest.mark.parametrize("first", [LEFT, RIGHT])
def test_frames_are_cut_by_each_sides_own_rows(tmp_path: Path, first: int) -> None:
    """Of two inputs' pandas frames none has rows of the other, or more than it may, whatever the batches are."""
    form = Cogrouped(FramesForm(FrameSettings("UTC", max_rows=4)), LEFT_SCHEMA, RIGHT_SCHEMA)
    rows = [left("a", n, n) for n in range(10)] + [right("a", n, n) for n in range(6)] + [right("b", 0, 1)]
    cuts = []
    for rows_each in (3, 100):
        calls = []
        for *_, sides in keyed(form, batches(rows, ORDER[1:], rows_each), tmp_path):
            both = {}
            for side in (first, 1 - first):
                frames = sides.left if side == LEFT else sides.right
                both[side] = [frame["order" if side == LEFT else "n"].tolist() for frame in frames]
            calls.append((both[LEFT], both[RIGHT]))
        cuts.append(calls)
    assert (
        cuts[0]
        == cuts[1]
        == [
            ([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], [[0, 1, 2, 3], [4, 5]]),
            ([], [[1]]),
        ]
    )
