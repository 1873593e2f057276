"""Plans the output of a stream-stream join: Spark's own columns of the same join, found behind the stage.

The stage's rows are files, whose columns have one name each, and no frame.  A join's may have the same name twice, and
be called by their frames' (``a.k``): what follows the stage sees them so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from ....errors import PlanError
from ....runtime.catalyst.columns import holds_floats
from ....runtime.catalyst.frame_columns import hidden_columns, hiding
from ....runtime.catalyst.spark_expressions import (
    attribute,
    attribute_id,
    class_name,
    is_attribute,
    items,
    tree,
    without_alias,
)
from ....runtime.catalyst.spark_joins import qualified, qualifier_of
from ....runtime.catalyst.spark_plans import analyzed, output_of
from ....runtime.catalyst.spark_session import empty_frame
from ....runtime.operators.join.columns import join_key_column, side_column
from ...inputs.event_time import CARRIER, EVENT_TIME_MARK, last_instant
from .condition import JoinCondition
from .side_columns import ColumnsOfSides


@dataclass(frozen=True)
class PlannedJoinOutput:
    """The columns of a join."""

    #: As the stage gives them.
    schema: StructType
    #: For each the columns of the frame of both sides that it is taken from.
    sources: tuple[tuple[str, ...], ...]
    #: The one by which a watermark of what comes out is told; None: there is none.
    event_time: str | None
    #: What users call that.
    event_time_label: str | None
    #: For each key column the output column that has it, unchanged; empty: not all are there.
    keys: tuple[str, ...]
    #: Makes of the stage's rows what users see, with more columns behind; None: they are that.
    presented: Callable[..., DataFrame] | None
    #: Which of what users see are columns of the sides.
    side_columns: ColumnsOfSides
    #: How many of the columns, at the end, only the names of their frames call up.
    hidden: int = 0

    @property
    def bare(self) -> PlannedJoinOutput:
        """The same without these."""
        count = len(self.sources) - self.hidden
        return replace(self, schema=StructType(self.schema.fields[:count]), sources=self.sources[:count], hidden=0)


def join_output(condition: JoinCondition, joined: DataFrame, how: str, *, keeps_time: bool) -> PlannedJoinOutput:
    """The columns of a join.

    Args:
        condition: of the join.
        joined: as Spark has analyzed it.
        how: its kind.
        keeps_time: whether there is a watermark of what comes out.
    """
    spark = condition.join.spark
    sources = tuple(_sources(condition, expression) for expression in condition.join.outputs)
    plan = analyzed(joined)
    attributes, behind = list(items(plan.output())), _hidden(condition, plan)
    shown = joined.schema.fieldNames()
    fold = str if condition.frames.rows[0].inputs.case_sensitive else str.lower
    times = Counter(map(fold, shown))
    names = [name if times[fold(name)] == 1 else f"__j{place}" for place, name in enumerate(shown)]
    fields = [
        _field(condition, field, name, found, keeps_time=keeps_time)
        for field, name, found in zip(joined.schema.fields, names, sources, strict=True)
    ]
    event_time = _event_time(condition, sources, names) if keeps_time else None
    label = None if event_time is None else shown[names.index(event_time)]
    keys = _keys(condition, sources, names, how)
    # What they are taken from: of an inner join the key of the other side, if that is no other value.
    hidden_names = [_equal(condition, at, sources, names, how) for at in behind]
    more = [(place, at) for place, at in enumerate(behind) if hidden_names[place] is None]
    for place, at in more:
        side, column = at
        hidden_names[place] = f"__j{len(names) + place}"
        given = condition.frames.rows[side].schema.fields[column]
        fields.append(StructField(f"__j{len(names) + place}", given.dataType, True))
    sources = (*sources, *((side_column(*at),) for _, at in more))
    schema = StructType(fields)
    output = PlannedJoinOutput(schema, sources, event_time, label, keys, None, ColumnsOfSides(condition.frames.known))
    by_id = [_place(condition, expression) for expression in condition.join.outputs]
    qualifiers = [qualifier_of(one) for one in attributes]
    if names == shown and not any(qualifiers) and not more:
        by_name = [*zip(by_id, names, strict=True), *zip(behind, hidden_names, strict=True)]
        side_columns = {at: attribute(spark, str(name)) for at, name in by_name if at is not None}
        return replace(output, side_columns=replace(output.side_columns, shown=side_columns))
    columns = [
        qualified(spark, name, label, qualifier)
        for name, label, qualifier in zip(names, shown, qualifiers, strict=True)
    ]
    if event_time is not None and event_time not in shown:
        window_end = last_instant(schema[event_time])
        if window_end is None:
            columns.append(qualified(spark, event_time, CARRIER, ()))
        else:
            columns.append(window_end.alias(CARRIER, metadata={EVENT_TIME_MARK: True}))
    columns_behind = [
        qualified(spark, str(name), str(one.name()), qualifier_of(one), one.metadata())
        for name, one in zip(hidden_names, behind.values(), strict=True)
    ]
    made = empty_frame(spark, schema).select(*columns, *columns_behind)
    own = list(output_of(made))
    in_front, hidden = own[: len(columns)], own[len(columns) :]
    side_columns = dict(zip(behind, hidden, strict=True))
    side_columns |= {at: one for at, one in zip(by_id, in_front, strict=False) if at is not None}

    def presented(frame: DataFrame, *more: Column) -> DataFrame:
        if not hidden:
            return frame.select(*columns, *more)
        whole = frame.select(*columns, *columns_behind, *more)
        return hiding(whole, in_front, hidden, whole.columns[len(own) :])

    return replace(
        output,
        presented=presented,
        side_columns=replace(output.side_columns, shown=side_columns),
        hidden=len(more),
    )


def _hidden(condition: JoinCondition, plan: Any) -> dict[tuple[int, int], Any]:
    """The columns that only the names of their frames call up, by side and place there."""
    known = condition.places
    return {known[id]: one for one in hidden_columns(plan) if (id := attribute_id(one)) in known}


def _equal(
    condition: JoinCondition,
    at: tuple[int, int],
    sources: Sequence[tuple[str, ...]],
    names: Sequence[str],
    how: str,
) -> str | None:
    """The output column that has the values of a key of the other side; None: there is none."""
    if how != "inner":
        return None
    for pair in condition.join.keys:
        if any(not is_attribute(one) for one in pair):
            continue
        places = [condition.places[attribute_id(one)] for one in pair]
        if at in places:
            other = places[1 - places.index(at)]
            types = [condition.frames.rows[side].schema.fields[place].dataType for side, place in (at, other)]
            if types[0] == types[1] and not holds_floats(types[0]) and (side_column(*other),) in sources:
                return names[sources.index((side_column(*other),))]
    return None


def _place(condition: JoinCondition, expression: Any) -> tuple[int, int] | None:
    """The side and place of the column that an output column is; None: it is computed."""
    bare = without_alias(expression)
    return condition.places.get(attribute_id(bare)) if is_attribute(bare) else None


def _sources(condition: JoinCondition, expression: Any) -> tuple[str, ...]:
    bare = without_alias(expression)
    children = list(items(bare.children())) if class_name(bare) == "Coalesce" else [bare]
    ids = [attribute_id(one) for child in children for one in tree(child) if is_attribute(one)]
    if all(is_attribute(child) for child in children):
        return tuple(side_column(*condition.places[id]) for id in ids)
    for place, pair in enumerate(condition.join.keys):  # a key of two types
        read = [attribute_id(one) for key in pair for one in tree(key) if is_attribute(one)]
        if sorted(read) == sorted(ids):
            return (join_key_column(place),)
    raise PlanError(f"join: column {expression.sql()} of the result cannot be told from the sides; join on a condition")


def _field(
    condition: JoinCondition, field: StructField, name: str, sources: tuple[str, ...], *, keeps_time: bool
) -> StructField:
    """A column as Spark has it; null where any of a side's inputs may be, and no event time if that is not kept."""
    given = {
        side_column(side, place): one
        for side, rows in enumerate(condition.frames.rows)
        for place, one in enumerate(rows.schema.fields)
    }
    own = given.get(sources[0]) if len(sources) == 1 else None
    data_type = field.dataType if own is None else own.dataType
    metadata = dict(field.metadata or {})
    if not keeps_time:
        metadata.pop(EVENT_TIME_MARK, None)
    nullable = field.nullable or any(one is None or one.nullable for one in map(given.get, sources))
    return StructField(name, data_type, nullable, metadata)


def _event_time(condition: JoinCondition, sources: tuple[tuple[str, ...], ...], names: list[str]) -> str | None:
    """The first column that is event time: the left side's, else the right one's."""
    by_source = {found[0]: name for found, name in zip(sources, names, strict=True) if len(found) == 1}
    for side, time in enumerate(condition.event_times.sides):
        for place in sorted(() if time is None else time.places):
            if side_column(side, place) in by_source:
                return by_source[side_column(side, place)]
    return None


def _keys(
    condition: JoinCondition, sources: tuple[tuple[str, ...], ...], names: list[str], how: str
) -> tuple[str, ...]:
    """The output columns that have the key of each row that goes out."""
    taken = dict(zip(sources, names, strict=True))
    keys = []
    for place, pair in enumerate(condition.join.keys):
        if any(not is_attribute(one) for one in pair):
            return ()
        left, right = (side_column(*condition.places[attribute_id(one)]) for one in pair)
        ways: list[tuple[str, ...]] = [(join_key_column(place),)]
        if how == "full":
            ways += [(left, right), (right, left)]
        else:
            ways += [(one,) for one, its in ((left, "right"), (right, "left")) if how != its]
        name = next((taken[way] for way in ways if way in taken), None)
        if name is None:
            return ()
        keys.append(name)
    return tuple(keys)
