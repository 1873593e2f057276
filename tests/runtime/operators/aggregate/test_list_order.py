"""Lists of structs in the order of their first fields."""

from __future__ import annotations

import math

import pyarrow as pa
from mixedmode.runtime.operators.aggregate.buffers import TopBuffer
from mixedmode.runtime.operators.aggregate.list_order import last_fields, sorted_lists

LISTS = pa.list_(pa.struct([("o", pa.float64()), ("p", pa.string()), ("v", pa.int64())]))


def lists(*given: list[tuple[float | None, str | None, int]] | None) -> pa.Array:
    rows = [one and [dict(zip("opv", struct, strict=True)) for struct in one] for one in given]
    return pa.array(rows, LISTS)


ROWS = lists(
    [(2.0, "b", 1), (None, "a", 2), (math.nan, None, 3), (2.0, "a", 4), (-0.0, "x", 5), (0.0, "x", 6)],
    None,
    [],
    [(1.0, None, 7)],
)


def values(array: pa.Array) -> list[list[int]]:
    found: list[list[int]] = last_fields(array).to_pylist()
    return found


def test_nulls_come_first_nan_last_and_equal_ones_stay() -> None:
    assert values(sorted_lists(ROWS, [False])) == [[2, 5, 6, 1, 4, 3], [], [], [7]]
    assert values(sorted_lists(ROWS, [True])) == [[3, 1, 4, 5, 6, 2], [], [], [7]]


def test_each_field_has_its_direction() -> None:
    assert values(sorted_lists(ROWS, [True, False])) == [[3, 4, 1, 5, 6, 2], [], [], [7]]


def test_a_limit_cuts_each_list() -> None:
    assert values(sorted_lists(ROWS, [False], 2)) == [[2, 5], [], [], [7]]


def test_part_of_an_array_is_sorted_as_the_whole() -> None:
    assert values(sorted_lists(ROWS.slice(3), [False])) == [[7]]


def test_the_top_of_two_epochs_is_that_of_all_rows() -> None:
    """Of equal ones those of the earlier epoch stay."""
    old, new = lists([(3.0, "", 1), (1.0, "", 2)], None), lists([(2.0, "", 3), (1.0, "", 4)], [(5.0, "", 5)])
    assert values(TopBuffer((0,), True, 3).merge([old], [new])[0]) == [[1, 3, 2], [5]]
    assert values(TopBuffer((0,), False, 2).merge([old], [new])[0]) == [[2, 4], [5]]
