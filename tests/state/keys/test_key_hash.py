"""Spark's hash of texts, all of one length and of several."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.state.keys.key_hash import spark_hash


@given(
    texts=st.integers(0, 5).flatmap(
        lambda words: st.lists(st.binary(min_size=4 * words, max_size=4 * words), min_size=1, max_size=20)
    ),
    seed=st.integers(-(2**31), 2**31 - 1),
    offset=st.integers(0, 2),
)
def test_texts_of_one_length_have_the_hash_that_they_have_among_others(
    texts: list[bytes], seed: int, offset: int
) -> None:
    """Columns whose texts have one length are hashed in a way of their own; Spark does not know of columns."""

    def hashes(texts: list[str]) -> list[int]:
        column = pa.array(["x"] * offset + texts).slice(offset)
        return spark_hash([pa.array([seed] * len(texts), pa.int64()), column]).tolist()

    of_one_length = [text.hex() for text in texts]
    assert hashes(of_one_length) == hashes([*of_one_length, "longer than all of the others by some bytes"])[:-1]
