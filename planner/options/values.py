"""Option values as people write them: durations, sizes, counts, choices, and back to text for explain().

A parser takes the text and returns the value, or raises ``ValueError`` with what is wrong with it; the registry
adds the option and what is allowed.  Parsers never guess: a duration without a unit is refused rather than read as
some unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: A bare number: pandas would read it as nanoseconds, other tools as milliseconds or seconds.
_UNITLESS = re.compile(r"[+-]?\d+(\.\d*)?")

_DURATION_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_SIZE_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def parse_duration_ms(text: str) -> int:
    """``"10 s"``, ``"500 ms"``, ``"1 hour"`` or ``"0"`` in milliseconds; never negative."""
    import pandas as pd

    stripped = text.strip()
    if _UNITLESS.fullmatch(stripped):
        if float(stripped) == 0:
            return 0
        raise ValueError("it has no unit")
    try:
        duration = pd.Timedelta(stripped)
    except ValueError as error:
        raise ValueError("it is not a duration") from error
    if not isinstance(duration, pd.Timedelta):  # NaT
        raise ValueError("it is not a duration")
    if duration < pd.Timedelta(0):
        raise ValueError("it is negative")
    duration_ms, rest_ns = divmod(duration.value, 1_000_000)
    if rest_ns:
        raise ValueError("it is not a whole number of milliseconds")
    return int(duration_ms)


def parse_positive_duration_ms(text: str) -> int:
    """As :func:`parse_duration_ms`, but 0 is refused."""
    duration_ms = parse_duration_ms(text)
    if duration_ms == 0:
        raise ValueError("it is 0")
    return duration_ms


def parse_size_bytes(text: str) -> int:
    """``"256 MiB"`` (1024) or ``"256 MB"`` (1000) in bytes; greater than 0."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size_bytes = int(TypeAdapter(ByteSize).validate_python(text.strip()))
    except ValidationError as error:
        raise ValueError("it is not a size") from error
    if size_bytes <= 0:
        raise ValueError("it is not greater than 0")
    return size_bytes


def size_of_at_least(least_bytes: int) -> Callable[[str], int]:
    """A parser of sizes that are not less than a bound."""

    def parse(text: str) -> int:
        size_bytes = parse_size_bytes(text)
        if size_bytes < least_bytes:
            raise ValueError(f"it is less than {format_size_bytes(least_bytes)}")
        return size_bytes

    return parse


def int_between(least: int, most: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers within bounds (both included)."""

    def parse(text: str) -> int:
        try:
            number = int(text.strip())
        except ValueError as error:
            raise ValueError("it is not a whole number") from error
        if number < least:
            raise ValueError(f"it is less than {least}")
        if most is not None and number > most:
            raise ValueError(f"it is greater than {most}")
        return number

    return parse


def one_of(*allowed: str) -> Callable[[str], str]:
    """A parser of one of a few words, in any case."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in allowed:
            raise ValueError("it is none of the allowed values")
        return word

    return parse


def parse_bool(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    allowed = {"true": True, "false": False}
    if text.strip().lower() not in allowed:
        raise ValueError("it is neither true nor false")
    return allowed[text.strip().lower()]


def parse_path(text: str) -> str:
    """A folder name, as it is; not empty."""
    if not text.strip():
        raise ValueError("it is empty")
    return text


def parse_name(text: str) -> str:
    """A column's name, as it is; not empty."""
    return parse_path(text)


def format_duration_ms(duration_ms: int) -> str:
    """``10000`` as ``"10 s"``: the greatest unit that divides it; :func:`parse_duration_ms` reads it back."""
    if duration_ms == 0:
        return "0"
    for unit_ms, name in _DURATION_UNITS:
        if duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms} {name}"
    return f"{duration_ms} ms"


def format_size_bytes(size_bytes: int) -> str:
    """``268435456`` as ``"256 MiB"``; :func:`parse_size_bytes` reads it back."""
    for unit_bytes, name in _SIZE_UNITS:
        if size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes} {name}"
    return f"{size_bytes} B"
