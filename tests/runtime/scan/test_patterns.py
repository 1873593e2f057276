"""Patterns, split texts, rounding and dictionaries in a scan; no Spark, but what Java has given."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.runtime.scan.expressions import functions  # noqa: F401
from mixedmode.runtime.scan.expressions.patterns import parts_of
from mixedmode.runtime.scan.expressions.values import Batch, Value
from mixedmode.runtime.scan.parquet_scan import NotTakenError

TEXT, DOUBLE = pa.string(), pa.float64()
NINE = pa.decimal128(9, 2)
S, D, M = (Value("column", data_type, (), ("s",)) for data_type in (TEXT, DOUBLE, NINE))


def of(value: Value, values: list[Any], data_type: pa.DataType = TEXT) -> list[Any]:
    """What an expression of the column s gives."""
    rows = pa.RecordBatch.from_arrays([pa.array(values, data_type)], names=["s"])
    return Batch(rows).of(value).to_pylist()


@pytest.mark.parametrize(
    "pattern",
    ["(?i)a", "a*+", r"\s", r"\bword", r"[a&&b]", "*a", "ä", "a{1", "(a", r"\1", "(?=a)", "(?<n>a)", r"\Qa\E"],
)
def test_patterns_with_parts_of_their_own_in_java_are_not_known(pattern: str) -> None:
    """Flags, possessive repetitions, white space, boundaries, intersections, references, lookarounds, broken ones."""
    assert parts_of(pattern) is None


@pytest.mark.parametrize("pattern", ["^https?://([^/]+)", r"item[0-9]{1,3}\.html", "(a|b)*c+?", r"[\w-]+@\w+$", ".*x"])
def test_ordinary_patterns_are_known(pattern: str) -> None:
    """Their parts make them up again."""
    assert "".join(text for _, text in parts_of(pattern) or []) == pattern


def test_an_end_of_text_is_not_known_before_line_ends() -> None:
    """Java finds an end before the last line end, RE2 does not; without one in any text both are the same."""
    ends = Value("matches", pa.bool_(), (S,), ("a$", True))
    assert of(ends, ["ba", "ab", None]) == [True, False, None]
    with pytest.raises(NotTakenError, match="line ends"):
        of(ends, ["a\n"])


def test_items_behind_the_last_one() -> None:
    """Null where Spark has null, and for Spark to find where it raises."""
    texts = ["a/b", "/", "", "a", None]
    assert of(Value("split_item", TEXT, (S,), ("/", 1)), texts) == ["b", "", None, None, None]
    assert of(Value("split_item", TEXT, (S,), ("/", 0, "checked")), texts) == ["a", "", "", "a", None]
    with pytest.raises(NotTakenError, match="behind the last"):
        of(Value("split_item", TEXT, (S,), ("/", 1, "checked")), texts)


@pytest.mark.parametrize(
    ("number", "scale", "wanted"),
    [(1.005, 2, 1.01), (2.675, 2, 2.68), (-2.5, 0, -3.0), (0.285, 2, 0.29), (-0.001, 2, 0.0), (1e300, 2, 1e300)],
)
def test_doubles_are_rounded_as_they_are_written(number: float, scale: int, wanted: float) -> None:
    """Half up in decimal digits, though the double is a little less than the half."""
    assert str(of(Value("round_real", DOUBLE, (D,), (scale,)), [number], DOUBLE)) == str([wanted])


def test_a_double_that_java_may_write_otherwise_is_not_taken() -> None:
    """It is close to the middle, and has more digits than are certain."""
    with pytest.raises(NotTakenError, match="close to the middle"):
        of(Value("round_real", DOUBLE, (D,), (2,)), [1234567890.1250002], DOUBLE)


def test_quotients_of_decimals_are_rounded_half_up() -> None:
    """Away from zero; also where a dividend with the digits of the result has more than 64 bits."""
    value = Value("divide_decimals", pa.decimal128(21, 12), (M, Value("constant", NINE, (), (Decimal("8.00"),))))
    found = of(value, [Decimal("-1.00"), Decimal("9999999.99"), None], NINE)
    assert found == [Decimal("-0.125000000000"), Decimal("1249999.998750000000"), None]
    by_three = Value("divide_decimals", pa.decimal128(15, 6), (M, Value("constant", NINE, (), (Decimal("0.03"),))))
    assert of(by_three, [Decimal("0.02"), Decimal("-0.02")], NINE) == [Decimal("0.666667"), Decimal("-0.666667")]
    for mode, wanted in (((), [None, Decimal("2.000000")]), (("checked",), None)):
        by_itself = Value(
            "divide_decimals", pa.decimal128(15, 6), (Value("constant", NINE, (), (Decimal(1),)), M), mode
        )
        if wanted is not None:
            assert of(by_itself, [Decimal(0), Decimal("0.50")], NINE) == wanted
        else:
            with pytest.raises(NotTakenError, match="division by zero"):
                of(by_itself, [Decimal(0)], NINE)


def test_values_of_texts_are_those_of_their_dictionary() -> None:
    """Computed once for each text, nulls included; a text that fails and is in no row does not matter."""
    indices = pa.array([0, 1, None, 0, 1, 0, 1, 1], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "é", "ß"]))
    rows = pa.RecordBatch.from_arrays([column], names=["s"])
    for value in (
        Value("upper", TEXT, (S,)),
        Value("is_in", pa.bool_(), (S,), (("a",), False)),
        Value("coalesce", TEXT, (S, Value("constant", TEXT, (), ("none",)))),
        S,
    ):
        assert Batch(rows).of(value).to_pylist() == of(value, column.to_pylist())
    assert Batch(rows).of(Value("upper", TEXT, (S,))).to_pylist()[:3] == ["A", "É", None]
