"""Durations, sizes, counts and words as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.planner.options.values import (
    format_duration_ms,
    format_size_bytes,
    int_between,
    one_of,
    parse_duration_ms,
    parse_positive_duration_ms,
    parse_size_bytes,
)
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("10 s", 10_000),
        ("500 ms", 500),
        ("1 hour", 3_600_000),
        ("0", 0),
        ("0 s", 0),
        ("1.5 seconds", 1_500),
        ("1h30m", 5_400_000),
        ("2 Days 3 MINUTES", 172_980_000),
        ("1 week -1 day", 518_400_000),
        ("00:01:30.5", 90_500),
        ("1 day, 01:00:00", 90_000_000),
        ("PT1H", 3_600_000),
    ],
)
def test_durations_are_read_with_their_units(text: str, expected_ms: int) -> None:
    """A duration has a unit; 0 needs none."""
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10", "it has no unit"),
        ("1.5", "it has no unit"),
        ("soon", "it is not a duration"),
        ("", "it is not a duration"),
        ("NaT", "it is not a duration"),
        ("10 parsecs", "it is not a duration"),
        ("1 s and more", "it is not a duration"),
        ("1 month", "it is not a duration"),
        ("10 s 5", "it is not a duration"),
        ("0.1 ms", "it is not a whole number of milliseconds"),
        ("-1 s", "it is negative"),
        ("1 us", "it is not a whole number of milliseconds"),
        ("36526 d", "it is longer than 36525 d"),
        ("99999999999 d", "it is longer than 36525 d"),
        ("876600:00:01", "it is longer than 36525 d"),
    ],
)
def test_a_bad_duration_is_refused_with_the_reason(text: str, problem: str) -> None:
    """Durations are never guessed: the error says what is wrong."""
    with pytest.raises(ValueError, match=f"^{problem}$"):
        parse_duration_ms(text)


def test_durations_are_those_of_sparks_intervals(spark: SparkSession) -> None:
    """What Spark takes for an interval of days or less means the same here."""
    texts = [
        "1 week",
        "1 day 2 hours",
        "90 minutes -10 seconds",
        "1.25 seconds",
        "3 milliseconds",
        "2000 microseconds",
        "1 HOUR 1 minute 1 second 1 millisecond",
    ]
    asked = [F.expr(f"unix_millis(timestamp '1970-01-01' + interval '{text}')") for text in texts]
    assert [parse_duration_ms(text) for text in texts] == list(spark.range(1).select(*asked).first() or ())


@pytest.mark.parametrize("text", ["0", "0 ms"])
def test_a_positive_duration_is_not_zero(text: str) -> None:
    """Where 0 makes no sense it is refused, with or without a unit."""
    with pytest.raises(ValueError, match=r"^it is 0$"):
        parse_positive_duration_ms(text)


@pytest.mark.parametrize(("text", "expected"), [("256 MiB", 256 * 1024**2), ("1 MB", 10**6), ("4096", 4096)])
def test_sizes_are_read_with_binary_and_decimal_units(text: str, expected: int) -> None:
    """MiB is 1024 * 1024, MB is 1000 * 1000, no unit is bytes."""
    assert parse_size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "lots", "1 XB", "0", "-1 MiB"])
def test_a_bad_size_is_refused(text: str) -> None:
    """A size is greater than 0 and has a unit that exists."""
    with pytest.raises(ValueError, match=r"it is not a size|it is not greater than 0"):
        parse_size_bytes(text)


@given(st.integers(0, 10**12))
def test_a_formatted_duration_is_read_back(duration_ms: int) -> None:
    """What explain() prints may be pasted back as an option."""
    assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


@given(st.integers(1, 2**53))
def test_a_formatted_size_is_read_back(size_bytes: int) -> None:
    """What explain() prints may be pasted back as an option."""
    assert parse_size_bytes(format_size_bytes(size_bytes)) == size_bytes


def test_whole_numbers_have_bounds() -> None:
    """Both bounds are allowed, what lies outside is refused with the bound."""
    parse = int_between(1, 3)

    assert [parse("1"), parse(" 3 ")] == [1, 3]
    for text, problem in [("0", "less than 1"), ("4", "greater than 3"), ("2.0", "not a whole number")]:
        with pytest.raises(ValueError, match=problem):
            parse(text)


def test_words_are_read_in_any_case() -> None:
    """One of a few words, whatever its case; others are refused."""
    parse = one_of("max", "observed")

    assert parse(" MAX ") == "max"
    with pytest.raises(ValueError, match="none of the allowed"):
        parse("minimum")
