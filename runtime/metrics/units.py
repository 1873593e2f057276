"""Numbers and moments as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

#: How a value is written on an axis and in a table.
Unit = Callable[[float], str]

_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_COUNTS = ("", "k", "M", "G")


def count(value: float) -> str:
    """About how many: ``1.5 M``."""
    return _scaled(value, 1000, _COUNTS)


def size(value: float) -> str:
    """Bytes."""
    return _scaled(value, 1024, _BYTES)


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    place = 0
    while abs(value) >= base * 0.9995 and place < len(units) - 1:
        value, place = value / base, place + 1
    return f"{digits(value)} {units[place]}".rstrip()


def span(ms: float) -> str:
    """A length of time, in the unit that fits."""
    if ms == 0:
        return "0 s"
    for length, name in _SPANS:
        if abs(ms) >= length * 0.9995:
            return f"{digits(ms / length)} {name}"
    return f"{digits(ms)} ms"


def lasting(ms: float) -> str:
    """A length of time in whole units, the two that say most: ``1 min 34 s``."""
    left = max(round(ms / 1000), 0)
    parts: list[str] = []
    for length, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        number, rest = divmod(left, length)
        if number and len(parts) < 2:
            parts.append(f"{number:,} {name}")
        elif parts:
            break
        left = rest
    return " ".join(parts) or "0 s"


def time_to_go(eta_s: float | None, low_s: float | None, high_s: float | None) -> str | None:
    """How long something will take yet: one length, or two between which it is; None: neither is known.

    Args:
        eta_s: the length; None: it is not known well enough.
        low_s: the lower bound; None: it is not known either.
        high_s: the upper bound.
    """
    if eta_s is not None:
        return lasting(eta_s * 1000)
    if low_s is None or high_s is None:
        return None
    return f"{lasting(low_s * 1000)} to {lasting(high_s * 1000)}"


def percent(fraction: float) -> str:
    """A part of all, in whole percents; 100 % is all of it."""
    return f"{int(fraction * 100)} %"


def per_second(value: float) -> str:
    """Rows in a second."""
    return f"{count(value)}/s"


def digits(value: float) -> str:
    """Three digits, or all of them before the point."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def whole(value: float) -> str:
    """All digits of a whole number."""
    return f"{value:,.0f}"


def moment(ms: int) -> datetime:
    """The moment, in UTC; what no calendar has is moved to its nearest end."""
    limit = 253_402_214_400_000
    return datetime.fromtimestamp(max(-62_135_596_800_000, min(ms, limit)) / 1000, timezone.utc)


def clock(ms: int) -> str:
    """Day and time to the second."""
    return moment(ms).strftime("%Y-%m-%d %H:%M:%S")


def iso(ms: int) -> str:
    """As machines read it."""
    return moment(ms).isoformat(timespec="milliseconds")


def rescaled(before: Mapping[str, int], after: Mapping[str, int], checkpoint_id: int | None) -> str:
    """What has become of the shards of each stage that has others.

    Args:
        before: shards by stage.
        after: the same now.
        checkpoint_id: the first that holds it; None: the run has begun so.
    """
    changed = [f"{uid} {before[uid]} to {count} shards" for uid, count in after.items() if count != before.get(uid)]
    how = "by pipeline.parallelism" if checkpoint_id is None else f"from checkpoint {checkpoint_id} on"
    return f"{', '.join(changed)}, {how}"
