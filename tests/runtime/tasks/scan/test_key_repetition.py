"""A sample says how often rows have the same key, whatever a key is made of."""

from __future__ import annotations

import pyarrow as pa
import pytest
from mixedmode.runtime.tasks.scan.key_repetition import rows_per_key_among, sampled


def test_keys_may_be_structs_of_structs() -> None:
    """They are told apart by all that is in them; fields of two keys may have one name."""
    inner = pa.array([{"a": 1, "b": {"c": at % 3}} for at in range(12)])
    table = pa.table({"k": inner, "k.a": pa.array([at % 2 for at in range(12)]), "other": pa.array(range(12))})
    assert sampled(table, ["k"]) == (12, 3)
    assert sampled(table, ["k", "k.a"]) == (12, 6)


@pytest.mark.parametrize(
    ("rows", "per_key", "whole", "found"),
    [(1000, 10.0, 1000, 10.0), (1000, 10.0, 1_000_000, 1.0), (1000, 100_000.0, 1_000_000, 100.0), (10, 5.0, 1, 5.0)],
)
def test_some_rows_repeat_keys_less_often_than_all(rows: int, per_key: float, whole: int, found: float) -> None:
    """All of them as often; a few of many hardly, unless there are few keys."""
    assert rows_per_key_among(rows, per_key, whole) == pytest.approx(found, rel=0.02)
