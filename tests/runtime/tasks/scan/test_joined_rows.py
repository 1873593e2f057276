"""Both sides of a join as numpy joins them, against a model of what Spark makes of them in a first pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.runtime.operators.join.columns import LEFT, PAIR, RIGHT
from mixedmode.runtime.operators.join.definition import TimeBounds
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.tasks.scan import joined_rows
from mixedmode.runtime.tasks.scan.joined_rows import JoinedRows

TIME = pa.timestamp("us", "UTC")
KEYS = (("__k0", pa.int64()), ("__k1", pa.string()))
SECOND = 1_000_000
#: So far apart that event times and keys do not fit into one number.
FAR = 2**61

times = st.one_of(st.none(), st.integers(-6, 6).map(lambda second: second * SECOND), st.sampled_from([-FAR, FAR]))
row = st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.sampled_from("ab")), times)
bounds = st.one_of(st.none(), st.integers(-4, 4).map(lambda second: second * SECOND))


def work_of(keys: int, how: Any, least: int | None, greatest: int | None, firing_ms: int) -> JoinedRows:
    own = KEYS[:keys]
    return JoinedRows(
        key_columns=tuple(name for name, _ in own),
        group_columns=tuple(name for name, _ in own),
        sides=tuple((*own, ("__time", TIME), (f"__{side}0", pa.int64())) for side in "lr"),
        how=how,
        bounds=TimeBounds(least, greatest),
        outer={"left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}.get(how, ()),
        keep_us=(None if least is None else -least, greatest),
        firing_ms=firing_ms,
        delay_ms=2000,
    )


def side_of(work: JoinedRows, side: int, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """All rows in one key group, in the order in which they come; each has its number."""
    keys = range(len(work.key_columns))
    columns = [[0] * len(rows), *[[row[place] for row in rows] for place in keys]]
    columns += [[row[2] for row in rows], list(range(len(rows)))]
    schema = work.run_schema(side)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def model(work: JoinedRows, sides: Sequence[Sequence[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """``(side, key, time, left's number, right's number, whether it has had a partner)`` of all that goes on."""
    keys = len(work.key_columns)
    pairs = [
        (one, other)
        for one, left in enumerate(sides[LEFT])
        for other, right in enumerate(sides[RIGHT])
        if left[:keys] == right[:keys] and None not in left[:keys] and None not in (left[2], right[2])
        if work.bounds.least_us is None or left[2] - right[2] >= work.bounds.least_us
        if work.bounds.greatest_us is None or left[2] - right[2] <= work.bounds.greatest_us
    ]
    partnered = [{pair[side] for pair in pairs} for side in (LEFT, RIGHT)]
    found: list[tuple[Any, ...]] = []
    if work.how == "leftsemi":
        for at in partnered[LEFT]:
            found.append((PAIR, sides[LEFT][at][:keys], sides[LEFT][at][2], at, None, True))
    else:
        for one, other in pairs:
            time = max(sides[LEFT][one][2], sides[RIGHT][other][2])
            found.append((PAIR, sides[LEFT][one][:keys], time, one, other, True))
    at_end = work.firing_ms == MAX_WATERMARK
    for side, rows in enumerate(sides):
        keep = work.keep_us[side]
        until = None if keep is None or work.firing_ms == MIN_WATERMARK else work.firing_ms * 1000 - keep
        for at, row in enumerate(rows):
            has_partner, time, place = at in partnered[side], row[2], [None, None]
            place[side] = at
            is_over = at_end or (until is not None and time is not None and time < until)
            if is_over and side in work.outer and not has_partner:
                when = None if time is None else time + (keep or 0) + (1 + work.delay_ms) * 1000
                found.append((PAIR, row[:keys], when, *place, False))
            stays = not at_end and (until is None or time is None or time >= until)
            if work.how == "leftsemi" and side == LEFT:
                stays &= not has_partner
            if stays:
                found.append((side, row[:keys], time, *place, has_partner and side in work.outer))
    return sorted(found, key=repr)


def shown(work: JoinedRows, batches: Sequence[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    found = []
    for batch in batches:
        batch = batch.set_column(
            batch.schema.get_field_index("__time"), "__time", batch.column("__time").view(pa.int64())
        )
        for one in batch.to_pylist():
            key = tuple(one[name] for name in work.key_columns)
            found.append((one["__side"], key, one["__time"], one["__l0"], one["__r0"], one["__matched"]))
    return found


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "leftsemi"])
@pytest.mark.parametrize("keys", [1, 2])
def test_pairs_and_rows_that_stay_are_those_of_the_model(how: str, keys: int) -> None:
    """Whatever the bounds and the watermark; rows that stay come in the order of key and time, behind each other."""

    @settings(max_examples=60, deadline=None)
    @given(
        sides=st.tuples(st.lists(row, max_size=12), st.lists(row, max_size=12)),
        range_us=st.tuples(bounds, bounds).filter(lambda both: both != (None, None)),
        firing_ms=st.sampled_from([MIN_WATERMARK, -2000, 0, 1999, MAX_WATERMARK]),
        pairs=st.sampled_from([3, 1 << 17]),
    )
    def check(sides: Any, range_us: tuple[int | None, int | None], firing_ms: int, pairs: int) -> None:
        work = work_of(keys, how, *range_us, firing_ms)
        sides = [[(*one[:keys], *[None] * (2 - keys), one[2]) for one in rows] for rows in sides]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joined_rows, "_PAIRS", pairs)
            batches = list(work.of_shard([side_of(work, side, rows) for side, rows in enumerate(sides)]))
        found = shown(work, batches)
        assert sorted(found, key=repr) == model(work, sides)
        staying = [one for one in found if one[0] != PAIR]
        order = [
            (*[(part is not None, part) for part in key], (time is not None, time)) for _, key, time, *_ in staying
        ]
        assert order == sorted(order)

    check()
