"""The walk of a join over rows, state and due keys against a model in plain Python, without Spark."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_support import GROUPS, LEFT, RIGHT, TINY, Model, Row, Shard, joined
from mixedmode.errors import CheckpointMismatchError, StateSchemaError
from mixedmode.runtime.checkpoints.identity import FOUND_BY_STATE, stage_differences
from mixedmode.runtime.operators.contract import InOrder
from mixedmode.runtime.operators.join.definition import Sizes, TimeBounds
from mixedmode.runtime.operators.join.output import JoinOutput
from mixedmode.runtime.operators.join.state.chunks import ChunkStore
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.tasks.state.variable_scans import JoinScan
from mixedmode.state.backend.reader import ShardView
from mixedmode.state.keys.keys import KeyCodec
from pyspark.sql.types import StructType

HOWS = ["inner", "left", "right", "full", "leftsemi"]
BOUNDS = [
    TimeBounds(),
    TimeBounds(0, 20_000),
    TimeBounds(-10_000, 10_000),
    TimeBounds(-30_000, -10_000),
    TimeBounds(None, 5_500),
    TimeBounds(-7_001, None),
]
SIZES = [
    Sizes(),
    TINY,
    Sizes(piece_rows=1, chunk_rows=1, inline_rows=0, read_rows=1, pair_rows=1),
    Sizes(piece_bytes=300, chunk_rows=2, inline_rows=1, read_chunks=2, pair_bytes=100),
]
ROWS = st.lists(
    st.tuples(
        st.sampled_from([LEFT, RIGHT]),
        st.sampled_from(["a", "b", "c", None]),
        st.one_of(st.none(), st.integers(0, 100).map(lambda ms: ms * 1000), st.integers(0, 100_000)),
    ),
    max_size=14,
)


def rows_of(drawn: list[Any], first: int) -> list[Row]:
    return [Row(side, key, time, first + place) for place, (side, key, time) in enumerate(drawn)]


def ordered(found: list[Any]) -> list[Any]:
    return sorted(found, key=repr)


def same(found: list[Any], expected: list[Any], operator: Any) -> bool:
    """Whether rows and their watermarks are alike.

    A left row of a semi join whose key comes in parts goes out with the first partner of its part.
    """
    if operator.how == "leftsemi" and (operator.sizes.piece_rows < 100 or operator.sizes.piece_bytes < 1_000):
        found, expected = [row[:2] for row in found], [row[:2] for row in expected]
    return ordered(found) == ordered(expected)


@pytest.mark.slow
@given(
    how=st.sampled_from(HOWS),
    bounds=st.sampled_from(BOUNDS),
    sizes=st.sampled_from(SIZES),
    more_us=st.sampled_from([0, 0, 3_000]),
    epochs=st.lists(st.tuples(ROWS, st.integers(0, 40), st.sampled_from(["sorted", "random"])), max_size=6),
    batch_rows=st.sampled_from([1, 3, 100]),
    restarts=st.booleans(),
    asks=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_epochs_put_out_what_the_model_does_and_forget_what_is_over(
    how: str,
    bounds: TimeBounds,
    sizes: Sizes,
    more_us: int,
    epochs: list[Any],
    batch_rows: int,
    restarts: bool,
    asks: bool,
) -> None:
    """Pairs, rows without a partner, when they are emitted, counters, and nothing that is left at the end."""
    with tempfile.TemporaryDirectory() as folder:
        operator = joined(how, bounds, sizes, more_us, asks)
        shard, model, late_ms, firing_ms, count = Shard(operator, folder), Model(operator), MIN_WATERMARK, 0, 0
        for drawn, step, style in epochs:
            rows = rows_of(drawn, count)
            count += len(rows)
            clock = InOrder(late_ms, 5, max(firing_ms, 0) + 30)
            expected = model.epoch(rows, late_ms, firing_ms, clock)
            if restarts:
                shard.restart()
            assert same(shard.run(rows, late_ms, firing_ms, style, clock, batch_rows), expected, operator)
            late = [row for row in rows if row.time is not None and row.time < late_ms * 1000]
            assert (shard.counters.rows_in, shard.counters.rows_late) == (len(rows), len(late))
            assert shard.counters.rows_late_right == sum(row.side == RIGHT for row in late)
            late_ms, firing_ms = firing_ms, firing_ms + step
        clock = InOrder(late_ms, 5, firing_ms)
        expected = model.epoch([], late_ms, MAX_WATERMARK, clock)
        assert same(shard.run([], late_ms, MAX_WATERMARK, "random", clock), expected, operator)
        assert not shard.entries()
        shard.cache.close()


@pytest.mark.slow
@given(
    how=st.sampled_from(HOWS),
    bounds=st.sampled_from([TimeBounds(-10_000, 10_000), TimeBounds(0, 20_000), TimeBounds()]),
    epochs=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from([LEFT, LEFT, RIGHT]), st.integers(0, 60)), max_size=12),
            st.integers(0, 15),
            st.sampled_from(["sorted", "random", "random"]),
        ),
        min_size=3,
        max_size=6,
    ),
    piece_rows=st.sampled_from([5, 1000]),
    asks=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_key_with_many_rows_is_as_any_other(
    how: str, bounds: TimeBounds, epochs: list[Any], piece_rows: int, asks: bool
) -> None:
    """Chunks of which some rows have had a partner, and some in this very epoch; rows that come in parts."""
    with tempfile.TemporaryDirectory() as folder:
        operator = joined(how, bounds, replace(TINY, piece_rows=piece_rows), 0, asks)
        shard, model, late_ms, firing_ms, count = Shard(operator, folder), Model(operator), MIN_WATERMARK, 0, 0
        for drawn, step, style in epochs:
            rows = [
                Row(side, "a", (max(late_ms, 0) + ms) * 1000, count + place) for place, (side, ms) in enumerate(drawn)
            ]
            count += len(rows)
            clock = InOrder(late_ms, 5, firing_ms + 30)
            expected = model.epoch(rows, late_ms, firing_ms, clock)
            assert same(shard.run(rows, late_ms, firing_ms, style, clock), expected, operator)
            late_ms, firing_ms = firing_ms, firing_ms + step
        clock = InOrder(late_ms, 5, firing_ms)
        expected = model.epoch([], late_ms, MAX_WATERMARK, clock)
        assert same(shard.run([], late_ms, MAX_WATERMARK, "random", clock), expected, operator)
        assert not shard.entries()
        shard.cache.close()


@pytest.mark.slow
@given(
    how=st.sampled_from(HOWS),
    bounds=st.sampled_from(BOUNDS),
    sizes=st.sampled_from(SIZES),
    backlog=ROWS,
    live=ROWS,
    final_ms=st.integers(0, 120),
    keeps_all=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_first_pass_takes_over_what_is_joined_already(
    how: str, bounds: TimeBounds, sizes: Sizes, backlog: list[Any], live: list[Any], final_ms: int, keeps_all: bool
) -> None:
    """Its pairs go out as they are, whatever their order; what may still meet a partner becomes state."""
    with tempfile.TemporaryDirectory() as folder:
        operator = joined(how, bounds, sizes)
        shard, model = Shard(operator, folder), Model(operator)
        rows = rows_of(backlog, 0)
        by_value = {row.value: row for row in rows}
        clock = InOrder(MIN_WATERMARK, 5, final_ms)
        expected = model.epoch(rows, MIN_WATERMARK, final_ms, clock)
        made = []
        for left, right, at_ms in expected:
            pair = (by_value.get(left), by_value.get(right)) if how != "leftsemi" else (by_value[left], None)  # type: ignore[arg-type, index]
            made.append((*pair, (at_ms + clock.delay_ms) * 1000 if abs(at_ms) < 10**9 else None))
        flags = {id(one[0]): one[1] for one in model.waiting}
        if keeps_all:  # Spark's filter may leave more than what waits
            over = [row for row in rows if id(row) not in flags and row.key is not None]
            states = [one[0] for one in model.waiting] + over
        else:
            states = [one[0] for one in model.waiting]
        matched = [flags.get(id(row), True) for row in states]
        found = shard.run(states, MIN_WATERMARK, final_ms, "sorted", clock, 3, made, matched)
        assert ordered([out[:2] for out in found]) == ordered([out[:2] for out in expected])
        clock = InOrder(final_ms, 5, final_ms + 30)
        more = rows_of(live, len(rows))
        expected = model.epoch(more, final_ms, final_ms + 20, clock)
        assert same(shard.run(more, final_ms, final_ms + 20, "random", clock), expected, operator)
        clock = InOrder(final_ms + 20, 5, MAX_WATERMARK)
        expected = model.epoch([], final_ms + 20, MAX_WATERMARK, clock)
        assert same(shard.run([], final_ms + 20, MAX_WATERMARK, "random", clock), expected, operator)
        assert not shard.entries()
        shard.cache.close()


def test_a_changed_join_goes_on_with_rows_that_wait_if_they_know_enough() -> None:
    """Fewer kinds of rows, other bounds and conditions; not other columns, event times, or what was not noted."""
    bounds = TimeBounds(-10_000, 10_000)
    full = joined("full", bounds)
    state, record = full.registry, full.state_record
    assert joined("full", bounds).evolved(state, record, {}).changes == ()
    inner = joined("inner", TimeBounds(-20_000, 10_000)).evolved(state, record, {})
    told = [joined(how, at).describe() for how, at in (("full", bounds), ("inner", TimeBounds(-20_000, 10_000)))]
    assert stage_differences(*told)
    assert stage_differences(*told, FOUND_BY_STATE) == []  # so the location takes it for the same job
    assert [change.split(" ")[0] for change in inner.changes] == ["the", "left"]
    assert "0.02 s" in inner.changes[1]
    with pytest.raises(CheckpointMismatchError, match="inner join, which does not know what a left join needs"):
        joined("left", bounds).evolved(state, joined("inner", bounds).state_record, {})
    other = joined("full", bounds)
    other.sides = (other.sides[0], replace(other.sides[1], event_time="at"))
    with pytest.raises(CheckpointMismatchError, match="the right rows that wait have 'ts' as event time"):
        other.evolved(state, record, {})
    other.sides = (replace(other.sides[0], schema=StructType(other.sides[0].schema.fields[:3])), other.sides[1])
    with pytest.raises(StateSchemaError, match="column 'left 4: s'"):
        other.evolved(state, record, {})


def test_what_waits_can_be_looked_at(tmp_path: Path) -> None:
    """Each row with its side and event time, wherever it is stored."""
    shard = Shard(joined("inner", TimeBounds(-10_000, 10_000), TINY), str(tmp_path))
    rows = [Row(place % 2, "ab"[place % 3 > 0], place * 1000, place) for place in range(20)] + [
        Row(LEFT, "a", None, 99)
    ]
    shard.run(rows, MIN_WATERMARK, 0, "sorted", InOrder(MIN_WATERMARK, 0))
    view = ShardView(shard.base(), GROUPS, KeyCodec(shard.operator.key_schema), 0)
    scan = JoinScan(None, shard.operator.registry.get("rows"), sessions=True)  # type: ignore[arg-type]
    found = []
    for keys, (column,) in scan.batches(view):
        assert column.type.names == [field.name for field in scan.own_schema["value"].dataType]  # type: ignore[union-attr]
        for key, value in zip(keys, column.to_pylist(), strict=True):
            side = value[value["side"]]
            assert side["k"] == view.key_codec.decode(key)[0]
            found.append(Row(["left", "right"].index(value["side"]), side["k"], value["eventTimeUs"], side["v"]))
    assert ordered(found) == ordered(rows)
    shard.cache.close()


def test_a_partner_of_one_row_costs_the_chunks_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a key with many rows; what goes out of it goes out in pieces, and what has come in parts is like it."""
    sizes = Sizes(piece_rows=700, chunk_rows=100, read_rows=300, pair_rows=64)
    shard = Shard(joined("inner", TimeBounds(-1_000, 1_000), sizes), str(tmp_path))
    rows = [Row(LEFT, "a", place * 1_000, place) for place in range(2_000)]
    assert shard.run(rows, MIN_WATERMARK, 0, "sorted", InOrder(MIN_WATERMARK, 0), 250) == []
    assert shard.entries() == {1: 22, 2: 1}, "three parts in chunks, and the head"
    read: list[int] = []
    original = ChunkStore.read

    def noted(shelf: ChunkStore, names: Any) -> list[bytes]:
        read.append(len(names))
        return original(shelf, names)

    monkeypatch.setattr(ChunkStore, "read", noted)
    found = shard.run([Row(RIGHT, "a", 1_500_000, -1)], 0, 0, "random", InOrder(0, 0))
    assert sorted(row[0] for row in found) == [1499, 1500, 1501]  # type: ignore[type-var]
    assert sum(read) == 2
    shard.operator = joined("inner", TimeBounds(), sizes)
    read.clear()
    most: list[int] = []
    written = JoinOutput.pairs

    def counted(output: JoinOutput, pool: Any, left: Any, *others: Any) -> None:
        most.append(len(left))
        written(output, pool, left, *others)

    monkeypatch.setattr(JoinOutput, "pairs", counted)
    assert len(shard.run([Row(RIGHT, "a", 0, -2)], 0, 0, "random", InOrder(0, 0))) == 2_000
    assert (sum(read), max(most)) == (21, 64)
    assert max(read) <= 4
    shard.cache.close()


def test_rows_without_an_event_time_do_not_hide_others_of_their_key(tmp_path: Path) -> None:
    """They are in chunks of their own: these are never over, and within no bounds."""
    shard = Shard(joined("left", TimeBounds(-1_000, 1_000), TINY), str(tmp_path))
    times = [None, None, 10_000, 20_000]
    rows = [Row(LEFT, "a", time, place) for place, time in enumerate(times)]
    shard.run(rows, MIN_WATERMARK, 0, "sorted", InOrder(MIN_WATERMARK, 0))
    assert shard.run([Row(RIGHT, "a", 10_000, 9)], 0, 0, "random", InOrder(0, 0)) == [(2, 9, 10)]
    assert [row[:2] for row in shard.run([], 0, 100, "random", InOrder(0, 0))] == [(3, None)]
    at_end = shard.run([], 100, MAX_WATERMARK, "random", InOrder(100, 0))
    assert ordered([row[:2] for row in at_end]) == [(0, None), (1, None)]
    shard.cache.close()


def test_partners_in_a_later_part_are_remembered_until_the_key_ends(tmp_path: Path) -> None:
    """Rows that are in chunks already when their partner comes, in the same epoch."""
    shard = Shard(joined("left", TimeBounds(-1_000, 0), TINY), str(tmp_path))
    rows = [Row(LEFT, "a", place * 1_000, place) for place in range(4)]
    rows += [Row(RIGHT, "a", 3_000, 8)] + [Row(RIGHT, "a", 50_000, 9)] * 4
    found = shard.run(rows, MIN_WATERMARK, 100, "random", InOrder(MIN_WATERMARK, 0), 4)
    assert ordered([row[:2] for row in found]) == [(0, None), (1, None), (2, 8), (3, 8)]
    assert not shard.entries()
    shard.cache.close()
