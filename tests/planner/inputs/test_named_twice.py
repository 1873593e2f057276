"""A named live input that a job reads in two ways."""

from __future__ import annotations

import pytest
from mixedmode import PlanError, read
from pyspark.sql import DataFrame


def test_rows_united_with_themselves_number_their_named_input(history: DataFrame, live: DataFrame) -> None:
    """The first one keeps its name; two inputs that are called the same by mistake are refused as ever."""
    rows = read(history=history, live={"orders": live})
    twice = rows.union(rows.where("v > 1")).union(rows)
    assert [part.name for part in twice._inputs.lives] == ["orders", "orders-2", "orders-3"]
    with pytest.raises(PlanError, match="two live inputs are called 'orders'"):
        rows.union(read(live={"orders": live.select("*")}))
