"""Describes the keys of a ``groupBy``: plain ones, or grouping sets; as given, and for Spark's analyzer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData

from ....errors import PlanError
from ....runtime.operators.aggregate.grouping import GroupingSets
from ...inputs.inputs import Inputs
from ..keys import Keys, given_keys


def grouped_as(frame: DataFrame, columns: Sequence[Column], grouping: GroupingSets | None) -> GroupedData:
    """A frame grouped by columns; ``grouping``: in grouping sets of them, None: in one of all of them."""
    if grouping is None:
        return frame.groupBy(*columns)
    if grouping.method == "rollup":
        return frame.rollup(*columns)
    if grouping.method == "cube":
        return frame.cube(*columns)
    return frame.groupingSets([[columns[place] for place in places] for places in grouping.sets], *columns)


def grouping_of(what: str, inputs: Inputs, keys: Keys, sets: Any = None) -> GroupingSets:
    """The grouping sets of a method.

    Args:
        what: ``rollup``, ``cube`` or ``groupingSets``.
        inputs: what is grouped.
        keys: the columns that were given.
        sets: what ``groupingSets`` was given.

    Raises:
        PlanError: there is no column, or the sets are not sets of the columns.
    """
    count = len(keys.given)
    if not count:
        raise PlanError(f"{what}() got no column; give it the columns to group by, or use groupBy() for one group")
    if what == "rollup":
        return GroupingSets.rollup(count)
    if what == "cube":
        return GroupingSets.cube(count)
    if not isinstance(sets, (list, tuple)) or not all(isinstance(each, (list, tuple)) for each in sets) or not sets:
        raise PlanError(
            f"groupingSets takes a list of lists of columns, got {sets!r}; give for example [['k', 'p'], ['k'], []]"
        )
    known = [_text(key) for key in keys.given]
    found: list[tuple[int, ...]] = []
    for each in sets:
        members = [_text(member) for member in given_keys(inputs, each, what)]
        other = next((member for member in members if member not in known), None)
        if other is not None:
            raise PlanError(
                f"groupingSets has a set with {other}, which is not among its columns {', '.join(known)}; give it"
                " behind the sets, too"
            )
        places = tuple(sorted({known.index(member) for member in members}))
        if places in found:
            raise PlanError(
                f"groupingSets has the set ({', '.join(known[place] for place in places)}) twice, whose groups would be"
                " the same; leave one out"
            )
        found.append(places)
    return GroupingSets("groupingSets", count, tuple(found))


def _text(key: Column | str) -> str:
    return key if isinstance(key, str) else str(key).removeprefix("Column<'").removesuffix("'>")
