"""A key's rows come as bounded frames that depend on the key's rows alone, not on how batches were cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.keyed.keyed_rows import (
    INITIAL_STATE_COLUMN,
    KEY_GROUP_COLUMN,
    KIND_COLUMN,
    KeyedRows,
    KeySlices,
)
from mixedmode.runtime.operators.processor.frames.frame_input import FrameInput
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from mixedmode.state.keys.keys import KeyCodec
from pyspark.sql.types import LongType, StringType, StructField, StructType

KEY = StructType([StructField("key", StringType())])
INPUT = StructType([*KEY.fields, StructField("n", LongType())])
INITIAL = StructType([*KEY.fields, StructField("start", LongType())])
CODEC = KeyCodec(arrow_schema(KEY))

#: (key, n or None)
rows_of_keys = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.none() | st.integers(0, 9)), max_size=25)
cuttings = st.lists(st.integers(0, 50), max_size=5)


def batches(columns: dict[str, pa.Array], cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """All rows in key group 7, cut at the given places."""
    count = len(columns["key"])
    whole = pa.RecordBatch.from_pydict({KEY_GROUP_COLUMN: pa.array([7] * count, pa.int32()), **columns})
    for start, stop in pairwise([0, *sorted(cut % (count + 1) for cut in cuts), count]):
        yield whole.slice(start, stop - start)


def handed_over(made: Iterator[pa.RecordBatch], rows: FrameInput) -> Iterator[tuple[Any, Iterator[Any]]]:
    for _, key, _, _, frames in KeyedRows(made, KeySlices(CODEC, ("key",)), rows):
        yield CODEC.decode(key)[0], frames


def plain(value: Any) -> int | None:
    return None if value != value else int(value)  # NaN


@given(rows_of_keys, cuttings, st.integers(1, 4))
def test_frames_do_not_depend_on_the_cuts(rows: list[tuple[Any, Any]], cuts: list[int], most: int) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    columns = {
        "key": pa.array([key for key, _ in rows], pa.string()),
        "n": pa.array([n for _, n in rows], pa.int64()),
    }
    frames = FrameInput(INPUT, None, FrameSettings("UTC", max_rows=most))
    found = [
        (key, [(str(frame["n"].dtype), list(frame.index), [plain(n) for n in frame["n"]]) for frame in its])
        for key, its in handed_over(batches(columns, cuts), frames)
    ]
    expected = []
    for key, group in groupby(rows, key=lambda row: row[0]):
        numbers = [n for _, n in group]
        parts = [numbers[start : start + most] for start in range(0, len(numbers), most)]
        expected.append(
            (key, [("float64" if None in part else "int64", list(range(len(part))), part) for part in parts])
        )
    assert found == expected


@given(rows_of_keys, cuttings, st.integers(0, 3))
def test_frames_that_nobody_reads_are_passed(rows: list[tuple[Any, Any]], cuts: list[int], read: int) -> None:
    """A handler may stop after any number of frames; the next key's are its own."""
    rows = sorted(rows, key=lambda row: row[0])
    columns = {
        "key": pa.array([key for key, _ in rows], pa.string()),
        "n": pa.array([n for _, n in rows], pa.int64()),
    }
    frames = FrameInput(INPUT, None, FrameSettings("UTC", max_rows=2))
    for key, its in handed_over(batches(columns, cuts), frames):
        for _, frame in zip(range(read), its, strict=False):
            assert set(frame["key"]) == {key}


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 9)), max_size=14), cuttings, st.booleans()
)
def test_initial_state_comes_before_the_rows_of_its_key(
    rows: list[tuple[str, bool, int]], cuts: list[int], first: bool
) -> None:
    """In frames of its own columns; after the first epoch there is none."""
    rows = sorted((key, is_input or not first, n) for key, is_input, n in rows)
    columns = {
        KIND_COLUMN: pa.array([int(is_input) for _, is_input, _ in rows], pa.int32()),
        "key": pa.array([key for key, _, _ in rows], pa.string()),
        "n": pa.array([n if is_input else None for _, is_input, n in rows], pa.int64()),
        INITIAL_STATE_COLUMN: pa.array(
            [None if is_input else {"key": key, "start": n} for key, is_input, n in rows],
            pa.struct(list(arrow_schema(INITIAL))),
        ),
    }
    frames = FrameInput(INPUT, INITIAL, FrameSettings("UTC", max_rows=3))
    for key, pairs in handed_over(batches(columns, cuts), frames):
        found = list(pairs)
        assert all((initial is None) != (frame is None) for initial, frame in found)
        kinds = [initial is None for initial, _ in found]
        assert kinds == sorted(kinds)
        starts = [n for initial, _ in found if initial is not None for n in initial["start"]]
        numbers = [n for _, frame in found if frame is not None for n in frame["n"]]
        assert starts == [n for k, is_input, n in rows if k == key and not is_input]
        assert numbers == [n for k, is_input, n in rows if k == key and is_input]
        assert all("start" not in frame.columns for _, frame in found if frame is not None)


@pytest.mark.parametrize("cuts", [[], [3, 17], list(range(40))])
@pytest.mark.parametrize(("with_initial", "first"), [(False, True), (True, False), (True, True)])
def test_a_frame_is_bounded_by_its_bytes(cuts: list[int], with_initial: bool, first: bool) -> None:
    """By the average size of rows in the user's columns, wherever batches are cut.

    While an initial state is handed over, its columns count, too, as in PySpark.
    """
    columns = {"key": pa.array(["k"] * 40), "n": pa.array(range(40), pa.int64())}
    if with_initial:
        nothing = pa.nulls(40, pa.struct(list(arrow_schema(INITIAL))))
        columns |= {KIND_COLUMN: pa.array([1] * 40, pa.int32()), INITIAL_STATE_COLUMN: nothing}
    frames = FrameInput(INPUT, INITIAL if with_initial else None, FrameSettings("UTC", max_bytes=85), first=first)
    ((_, its),) = ((key, list(its)) for key, its in handed_over(batches(columns, cuts), frames))
    found = [frame[1] if with_initial else frame for frame in its]
    assert [n for frame in found for n in frame["n"]] == list(range(40))
    # A row has 13 bytes and two bits for nulls; a batch has an offset more, and whole bytes.
    expected = [5] * 8 if len(cuts) == 40 else [7] * 5 + [5]
    if with_initial and first:
        expected = [3] * 13 + [1] if len(cuts) == 40 else [4] * 10
    assert [len(frame) for frame in found] == expected


@pytest.mark.parametrize("cuts", [[], [3]])
def test_the_last_row_that_was_handed_over_is_known(cuts: list[int]) -> None:
    """For errors: within a batch, and in a frame that was joined of several."""
    columns = {"key": pa.array(list("aaaabb")), "n": pa.array(range(6), pa.int64())}
    frames = FrameInput(INPUT, None, FrameSettings("UTC", max_rows=3))
    assert frames.last_read("n") is None
    for key, its in handed_over(batches(columns, cuts), frames):
        last = [frames.last_read("n") for _ in its]
        assert last == ([2, 3] if key == "a" else [5])


def test_a_key_with_all_rows_streams_through() -> None:
    """Its frames are handed over while batches are still being read."""
    taken: list[int] = []

    def counted(made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in made:
            taken.append(batch.num_rows)
            yield batch

    columns = {"key": pa.array(["k"] * 100), "n": pa.array(range(100), pa.int64())}
    frames = FrameInput(INPUT, None, FrameSettings("UTC", max_rows=10))
    source = counted(batches(columns, list(range(0, 100, 5))))
    _, its = next(handed_over(source, frames))
    for number, frame in enumerate(its):
        assert list(frame["n"]) == list(range(number * 10, number * 10 + 10))
        assert sum(taken) <= 10 * (number + 1) + 5
