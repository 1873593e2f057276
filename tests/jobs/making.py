"""Makes the rows of inputs: times in order that lie on no boundary, Kafka topics, sockets, files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

from .job import Input, Row

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
COUNT = 240
#: What Spark's Kafka source gives.
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
#: What Spark's socket source gives with ``includeTimestamp``.
SOCKET = "value string, timestamp timestamp"
#: What Spark's rate source gives.
RATE = "timestamp timestamp, value bigint"

#: A row from its number, its time in seconds since START, and random numbers.
OneRow = Callable[[int, int, Random], Any]


def iso(second: float) -> str:
    """A time as JSON files and messages have it."""
    return (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def spaced(second: float) -> str:
    """A time as ``yyyy-MM-dd HH:mm:ss``."""
    return (START + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S")


def epoch(second: float) -> int:
    """A time in seconds since 1970."""
    return int(START.timestamp() + second)


def seconds(random: Random, count: int, step: int) -> list[int]:
    """Rising times, about ``step`` apart: all end in 7, so no window or watermark of tens of seconds meets one."""
    second, made = 7, []
    for _ in range(count):
        made.append(second // 10 * 10 + 7 if step >= 10 else second)
        second += max(1, random.randint(step // 2, step + step // 2))
    return made


def series(schema: str, row: OneRow, *, count: int = COUNT, step: int = 40, **more: Any) -> Input:
    """Rows with the given columns, as files.

    Args:
        schema: of the columns.
        row: makes one, as JSON has it (times as text, binaries as base64).
        count: of rows.
        step: mean seconds from one to the next.
        more: further fields of :class:`Input`.
    """

    def rows(random: Random) -> list[Row]:
        return [row(n, second, random) for n, second in enumerate(seconds(random, count, step))]

    return Input(schema, rows, **more)


def topic(value: OneRow, *, key: OneRow | None = None, name: str = "t", **more: Any) -> Input:
    """A Kafka topic whose values are JSON (``value`` gives a dict), or texts; ``more`` as for :func:`series`."""

    def row(n: int, second: int, random: Random) -> Row:
        return {
            "key": None if key is None else binary(key(n, second, random)),
            "value": binary(value(n, second, random)),
            "topic": name,
            "partition": 0,
            "offset": n,
            "timestamp": iso(second),
            "timestampType": 0,
        }

    return series(KAFKA, row, **more)


def socket(value: OneRow, **more: Any) -> Input:
    """Lines of a socket, JSON (``value`` gives a dict) or texts; ``more`` as for :func:`series`."""

    def row(n: int, second: int, random: Random) -> Row:
        return {"value": _text(value(n, second, random)), "timestamp": iso(second)}

    return series(SOCKET, row, **more)


def rate(**more: Any) -> Input:
    """Spark's rate source; ``more`` as for :func:`series`."""
    return series(RATE, lambda n, second, random: {"timestamp": iso(second), "value": n}, **{"step": 2, **more})


def again(source: Input, every: int, within: int = 5) -> Input:
    """Each ``every``-th row comes once more, up to ``within`` rows later, as it is."""

    def rows(random: Random) -> list[Row]:
        made: list[Row] = []
        waiting: list[tuple[int, Row]] = []
        for n, row in enumerate(source.rows(random)):
            made.append(row)
            if n % every == 0:
                waiting.append((n + random.randint(0, within), row))
            made += [row for due, row in waiting if due <= n]
            waiting = [(due, row) for due, row in waiting if due > n]
        return made + [row for _, row in waiting]

    return Input(source.schema, rows, source.end, source.format, source.options)


def fixed(schema: str, rows: list[Row]) -> Input:
    """The given rows, for a static table."""
    return Input(schema, lambda random: rows)


def binary(value: Any) -> str:
    """A binary as JSON files have it."""
    return base64.b64encode(_text(value).encode()).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
