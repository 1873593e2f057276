"""Windows as two columns of times while Spark groups by them: the faster table of its aggregation takes no structs.

The hash of a struct is that of its fields one after the other, so a group is in the same partition either way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column

_FIELDS = ("start", "end")


def group_columns(keys: Sequence[Column], names: Sequence[str], windows: Collection[int]) -> list[Column]:
    """The keys under names of columns, two for each window.

    Args:
        keys: the grouping expressions.
        names: of the keys.
        windows: the places of windows among them.
    """
    found: list[Column] = []
    for place, (column, name) in enumerate(zip(keys, names, strict=True)):
        if place in windows:
            found += [column.getField(field).alias(f"{name}_{field}") for field in _FIELDS]
        else:
            found.append(column.alias(name))
    return found


def group_names(names: Sequence[str], windows: Collection[int]) -> list[str]:
    """The names of :func:`group_columns`; the arguments are the same."""
    found: list[str] = []
    for place, name in enumerate(names):
        found += [f"{name}_{field}" for field in _FIELDS] if place in windows else [name]
    return found


def window_sql(name: str) -> str:
    """A window of its two columns, as SQL; ``name``: of the key."""
    fields = ", ".join(f"'{field}', {name}_{field}" for field in _FIELDS)
    return f"named_struct({fields})"
