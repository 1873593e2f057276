"""Byte strings joined value by value; no Spark."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.state.codec.byte_arrays import joined

_ROWS = 5
_PART = st.one_of(
    st.binary(max_size=3),
    st.lists(st.binary(max_size=4), min_size=_ROWS, max_size=_ROWS),
    st.integers(0, 3).flatmap(
        lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=_ROWS, max_size=_ROWS)
    ),
)


@given(
    st.lists(_PART, min_size=1, max_size=6).filter(lambda parts: any(isinstance(part, list) for part in parts)),
    st.integers(0, _ROWS),
)
def test_parts_are_joined_whatever_their_widths(parts: list[bytes | list[bytes]], first: int) -> None:
    """Constants, values of one width and others give what Python's ``+`` gives, also of a part of an array."""
    arrays = [part if isinstance(part, bytes) else pa.array(part, pa.binary()).slice(first) for part in parts]
    wanted = [b"".join(part if isinstance(part, bytes) else part[row] for part in parts) for row in range(first, _ROWS)]
    assert joined(*arrays).to_pylist() == wanted
