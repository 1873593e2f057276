"""A sample says how often rows have the same key, whatever a key is made of."""

from __future__ import annotations

import pyarrow as pa
from mixedmode.runtime.tasks.scan.key_repetition import sampled


def test_keys_may_be_structs_of_structs() -> None:
    """They are told apart by all that is in them; fields of two keys may have one name."""
    inner = pa.array([{"a": 1, "b": {"c": at % 3}} for at in range(12)])
    table = pa.table({"k": inner, "k.a": pa.array([at % 2 for at in range(12)]), "other": pa.array(range(12))})
    assert sampled(table, ["k"]) == (12, 3)
    assert sampled(table, ["k", "k.a"]) == (12, 6)
