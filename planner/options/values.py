"""Option values as people write them: durations, sizes, counts, choices, and back to text for explain().

A parser takes the text and returns the value, or raises ``ValueError`` with what is wrong with it; the registry
adds the option and what is allowed.  Parsers never guess: a duration without a unit is refused rather than read as
some unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction

from ...runtime.protocols.rows_per_call import RowsPerCall

#: A bare number: one tool reads it as milliseconds, another as seconds.
_UNITLESS = re.compile(r"[+-]?\d+(\.\d*)?")
#: A number and its unit, as often as one likes: Spark's way to write an interval.
_PART = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]+)\s*")
#: How Spark and others call a unit, and its nanoseconds; each may have an s behind it.
_UNITS_NS = {
    name: ns
    for ns, names in (
        (1, "ns nano nanosecond"),
        (1_000, "us micro microsecond"),
        (1_000_000, "ms msec milli millisecond"),
        (10**9, "s sec second"),
        (60 * 10**9, "m min minute"),
        (3_600 * 10**9, "h hr hour"),
        (86_400 * 10**9, "d day"),
        (604_800 * 10**9, "w week"),
    )
    for name in names.split()
}

#: A century: threads and dates of Python can be given anything up to it.
_LONGEST_D = 36_525
_LONGEST_NS = _LONGEST_D * 86_400 * 10**9

_DURATION_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_SIZE_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def parse_duration_ms(text: str) -> int:
    """``"10 s"``, ``"500 ms"``, ``"1 hour"`` or ``"0"`` in milliseconds; never negative, at most a century."""
    stripped = text.strip().lower()
    if _UNITLESS.fullmatch(stripped):
        if float(stripped) == 0:
            return 0
        raise ValueError("it has no unit")
    by_clock = ":" in stripped or stripped.startswith("p")
    duration_ns = _by_clock_ns(text.strip()) if by_clock else _by_units_ns(stripped)
    if duration_ns < 0:
        raise ValueError("it is negative")
    if duration_ns > _LONGEST_NS:
        raise ValueError(f"it is longer than {_LONGEST_D} d")
    if duration_ns % 1_000_000:
        raise ValueError("it is not a whole number of milliseconds")
    return int(duration_ns // 1_000_000)


def _by_units_ns(text: str) -> Fraction:
    total_ns, at = Fraction(0), 0
    while True:
        part = _PART.match(text, at)
        unit_ns = part and (_UNITS_NS.get(part[2]) or _UNITS_NS.get(part[2].removesuffix("s")))
        if not part or not unit_ns:
            raise ValueError("it is not a duration")
        total_ns += Fraction(part[1]) * unit_ns
        at = part.end()
        if at == len(text):
            return total_ns


def _by_clock_ns(text: str) -> Fraction:
    """``01:30:00`` and ``PT1H30M``."""
    from pydantic import TypeAdapter, ValidationError

    try:
        duration = TypeAdapter(timedelta).validate_python(text)
    except ValidationError as error:
        raise ValueError("it is not a duration") from error
    return Fraction(duration // timedelta(microseconds=1) * 1_000)


def parse_auto_or_duration_ms(text: str) -> int | None:
    """As :func:`parse_positive_duration_ms`; ``"auto"`` is None."""
    return None if text.strip().lower() == "auto" else parse_positive_duration_ms(text)


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


def parse_rows_per_call(text: str) -> RowsPerCall:
    """``"10000"`` rows, or those of ``"1 hour"`` of event time."""
    if re.fullmatch(r"[+-]?\d+", text.strip()):
        return RowsPerCall(rows=int_between(1)(text))
    return RowsPerCall(span_ms=parse_positive_duration_ms(text))


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


def format_rows_per_call(cut: RowsPerCall) -> str:
    """As :func:`parse_rows_per_call` reads it."""
    return str(cut.rows) if cut.span_ms is None else format_duration_ms(cut.span_ms)


def format_size_bytes(size_bytes: int) -> str:
    """``268435456`` as ``"256 MiB"``; :func:`parse_size_bytes` reads it back."""
    for unit_bytes, name in _SIZE_UNITS:
        if size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes} {name}"
    return f"{size_bytes} B"
