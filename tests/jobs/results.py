"""The results of a query as its sink's user sees them, in a form that can be stored and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from .job import Output

#: Digits of a float that are compared: the order in which floats are added is nobody's promise.
DIGITS = 9


@dataclass(frozen=True)
class Results:
    """Rows of one query: sorted unless their order counts; each a JSON text."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]

    def difference(self, other: Results, name: str, other_name: str) -> str:
        """The first rows that only one of the two has; empty: they are the same."""
        if self.rows == other.rows and (self.columns == other.columns or not self.rows):
            return ""
        if self.rows and other.rows and self.columns != other.columns:
            return f"columns {list(self.columns)} in {name}, {list(other.columns)} in {other_name}"
        only, others = without(self.rows, other.rows), without(other.rows, self.rows)
        if not only and not others:
            return f"the same {len(self.rows)} rows in another order"
        return "; ".join(
            f"{len(rows)} of {total} rows only in {whose}: {' '.join(rows[:3])}"
            for rows, total, whose in (
                (only, len(self.rows), name),
                (others, len(other.rows), other_name),
            )
            if rows
        )


def results(output: Output, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Results:
    """What is compared of a query's rows, which are given in the order of writing.

    Args:
        output: the query.
        columns: of the rows.
        rows: all that was written (append, update), or what the last table holds (complete).

    Raises:
        ValueError: if a column that the declaration names is not there.
    """
    names = list(columns)
    found = [[_plain(value) for value in row] for row in rows]
    if not names:
        return Results((), ())
    if unknown := [
        name for name in (*output.ignored, *(key.split(".")[0] for key in output.keys or ())) if name not in names
    ]:
        raise ValueError(f"the output has no column {', '.join(unknown)}; it has {', '.join(names)}")
    if output.keys is not None:
        found = list({json.dumps([_part(names, row, key) for key in output.keys or ()]): row for row in found}.values())
    kept = [place for place, name in enumerate(names) if name not in output.ignored]
    texts = [json.dumps([row[place] for place in kept], ensure_ascii=False) for row in found]
    return Results(tuple(names[place] for place in kept), tuple(texts if output.ordered else sorted(texts)))


def _part(names: list[str], row: list[Any], key: str) -> Any:
    """The value of a key column, or of a field of the JSON text in it."""
    column, _, field = key.partition(".")
    value = row[names.index(column)]
    return json.loads(value).get(field) if field else value


def _plain(value: Any) -> Any:
    """A value as JSON has it; two values are equal exactly if their plain forms are."""
    if isinstance(value, float):
        return format(value, f".{DIGITS}g")
    if isinstance(value, (datetime, date)):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return sorted(([_plain(key), _plain(of_key)] for key, of_key in value.items()), key=json.dumps)
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if hasattr(value, "toArray"):
        return [_plain(float(part)) for part in value.toArray()]
    return value


def without(rows: tuple[str, ...], others: tuple[str, ...]) -> list[str]:
    """The rows that are not among the others, as often as they are not."""
    left: dict[str, int] = {}
    for row in others:
        left[row] = left.get(row, 0) + 1
    only = []
    for row in rows:
        if left.get(row, 0):
            left[row] -= 1
        else:
            only.append(row)
    return only


def first_line(error: BaseException) -> str:
    """The first line of an error that says something, as the page shows it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:400]
