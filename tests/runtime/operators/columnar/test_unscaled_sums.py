"""Sums of decimals out of whole numbers: exact, or said to be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from mixedmode.errors import WideSumError
from mixedmode.runtime.operators.columnar.unscaled_sums import UnscaledSum, UnscaledSums

NARROW, WIDE = pa.decimal128(12, 2), pa.decimal128(19, 2)


def restored(values: Sequence[int | None], counts: Sequence[int], data_type: pa.Decimal128Type) -> pa.RecordBatch:
    """The decimals of some sums."""
    batch = pa.record_batch({"k": counts, "s": pa.array(values, pa.int64()), "n": pa.array(counts, pa.int64())})
    (found,) = UnscaledSums((UnscaledSum("s", "n", data_type),)).restored(iter([batch]))
    return found


@pytest.mark.parametrize("data_type", [NARROW, WIDE])
def test_sums_are_decimals_again(data_type: pa.Decimal128Type) -> None:
    """Of both signs, and null where there was no value; other columns stay."""
    found = restored([1, -250, None, 0, 10**12 - 1, 1 - 10**12], [1, 2, 0, 1, 1, 1], data_type)
    expected = [
        Decimal("0.01"),
        Decimal("-2.50"),
        None,
        Decimal(0),
        Decimal("9999999999.99"),
        Decimal("-9999999999.99"),
    ]
    assert found.column("s").equals(pa.array(expected, data_type))
    assert found.schema.names == ["k", "s", "n"]
    found.validate(full=True)


def test_the_ends_of_64_bits_fit() -> None:
    """Nineteen digits hold all that 64 bits do."""
    found = restored([2**63 - 1, -(2**63)], [1, 1], WIDE)
    assert found.column("s").to_pylist() == [Decimal(2**63 - 1).scaleb(-2), Decimal(-(2**63)).scaleb(-2)]


@pytest.mark.parametrize("value", [None, 10**12, -(10**12)])
def test_what_is_not_known_is_an_error(value: int | None) -> None:
    """A sum of values that Spark could not add, and one that its type does not hold."""
    with pytest.raises(WideSumError):
        restored([5, value], [1, 3], NARROW)


def test_no_rows_are_no_error() -> None:
    """A batch may be empty."""
    assert restored([], [], NARROW).num_rows == 0
