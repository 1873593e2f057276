"""Which regular expressions are taken, without Spark."""

from __future__ import annotations

import warnings

import pytest
from mixedmode.runtime.scan.expressions.patterns import parts_of


@pytest.mark.parametrize("pattern", ["[a--]", "[+--z]", "[~~a]", "[ab||c]"])
def test_classes_that_python_may_read_as_operations_on_sets_some_day_are_left_to_spark(pattern: str) -> None:
    """Python warns of them, which would be shown to users, or fail jobs where warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parts_of(pattern) is None
        assert parts_of("[a-z.-]+|--x~~") is not None
