"""Where windows start and end, against whole numbers of Python; no Spark."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.scan.expressions.long_expressions import LongExpression, computed
from mixedmode.runtime.scan.parquet_scan import NotTakenError

_TIMES = st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=8)


def _start(slide: int, offset: int) -> LongExpression:
    """As Spark's analyzer writes it."""
    time = ("subtract", ("column", "ts"), ("constant", offset))
    rest = ("remainder", time, ("constant", slide))
    back = ("if_less", rest, ("constant", 0), ("add", rest, ("constant", slide)), rest)
    return "subtract", ("subtract", ("column", "ts"), back), ("constant", 0)


@given(_TIMES, st.integers(1, 10**12), st.sampled_from([0, 0, -(10**9), 7]), st.booleans())
def test_windows_start_where_whole_numbers_say(times: list[int], slide: int, offset: int, is_late: bool) -> None:
    """Before 1970, behind it, and on both sides."""
    times = list(map(abs, times)) if is_late else times
    found = computed(_start(slide, offset), {"ts": np.array(times)})
    expected = [time - (time - offset) % slide for time in times]  # Python's % is never negative
    assert found.tolist() == expected


def test_a_remainder_has_the_sign_of_what_is_divided() -> None:
    """As Java has it; so it is with nothing to be added."""
    rest = ("add", ("remainder", ("column", "ts"), ("constant", 10)), ("constant", 0))
    times = [-15, -10, -1, 0, 1, 25]
    assert computed(rest, {"ts": np.array(times)}).tolist() == [int(math.fmod(time, 10)) for time in times]


def test_times_near_the_end_of_all_time_are_sparks() -> None:
    """Spark might find an overflow."""
    with pytest.raises(NotTakenError, match="near the end"):
        computed(_start(10, 0), {"ts": np.array([0, 1 << 62])})
