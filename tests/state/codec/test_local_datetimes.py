"""Local time of one value after the other is what the C library says of each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mixedmode.state.codec.conversions import local_micros, micros_local
from mixedmode.state.codec.local_datetimes import LocalMoments

_EPOCH = datetime(1970, 1, 1)


@pytest.fixture(scope="module", params=["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"])
def _zone(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


#: One object for all examples: what it remembers must not be wrong for those that follow.
_MOMENTS: dict[tuple[str, ...], LocalMoments] = {}


def _moments() -> LocalMoments:
    return _MOMENTS.setdefault(time.tzname, LocalMoments())


#: Around changes of the clock in the zones above, and anywhere.
_CHANGES = [
    datetime(2024, 3, 31),
    datetime(2024, 10, 27),
    datetime(2024, 3, 10),
    datetime(2024, 11, 3),
    datetime(2024, 4, 6, 12),
]
_WALL = st.datetimes(datetime(1902, 1, 1), datetime(2100, 1, 1)) | st.builds(
    lambda day, minutes, micros: day + timedelta(minutes=minutes, microseconds=micros),
    st.sampled_from(_CHANGES),
    st.integers(-60, 36 * 60),
    st.integers(0, 10**6),
)


@pytest.mark.usefixtures("_zone")
@given(_WALL, st.integers(0, 1))
@example(datetime(2024, 10, 27, 2, 30), 1)
def test_a_naive_datetime_is_the_moment_that_python_says(wall: datetime, fold: int) -> None:
    """In both of the hours that come twice, and in those that never come."""
    value = wall.replace(fold=fold)
    assert _moments().micros(value) == local_micros(value)


@pytest.mark.usefixtures("_zone")
@given(_WALL)
def test_a_moment_is_the_naive_datetime_that_python_says(utc: datetime) -> None:
    """The second of two equal hours is marked as such."""
    micros = (utc - _EPOCH) // timedelta(microseconds=1)
    found = _moments().naive(micros)
    assert (found, found.fold) == (micros_local(micros), micros_local(micros).fold)


def test_an_aware_datetime_is_its_own_moment() -> None:
    """Whatever the zone of the process."""
    value = datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    assert LocalMoments().micros(value) == local_micros(value)


@pytest.mark.usefixtures("_zone")
@given(st.lists(_WALL, max_size=20))
@example([datetime(2024, 10, 27, 0, 30), datetime(2024, 10, 27, 1, 30)])
def test_a_column_is_what_its_moments_are_one_by_one(walls: list[datetime]) -> None:
    """The second one of a repeated hour has ``fold=1``, which equality does not see."""
    micros = [(wall - _EPOCH) // timedelta(microseconds=1) for wall in walls]
    found = _moments().naive_column(np.array(micros, dtype=np.int64))
    expected = [micros_local(one) for one in micros]
    assert [(one, one.fold) for one in found] == [(one, one.fold) for one in expected]
