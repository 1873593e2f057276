"""Stars in columns: ``*`` stands for the columns that users know, not for those that go along with the rows unseen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..jvm.gateway import scala_sequence
from .columns import RESERVED, quoted
from .frame_columns import with_nodes
from .spark_expressions import class_name, items, parsed
from .spark_plans import output_of

_STAR, _STAR_EXCEPT, _REGEX = "UnresolvedStar", "UnresolvedStarExceptOrReplace", "UnresolvedRegex"


def hidden_names(frame: DataFrame) -> list[str]:
    """The columns that users do not know."""
    return [name for name in frame.columns if RESERVED.fullmatch(name)]


def starred(columns: Sequence[Any], named: Callable[[str], Column] = F.col) -> Callable[[DataFrame], list[Any]]:
    """What gives columns as a frame takes them: its hidden columns are in no star.

    Args:
        columns: as users write them.
        named: makes a column of a text.
    """
    if not any(_may_have_star(column) for column in columns):
        return lambda frame: list(columns)

    def taken(frame: DataFrame) -> list[Any]:
        hidden = hidden_names(frame)
        if not hidden:
            return list(columns)
        written = [named(column) if isinstance(column, str) and "*" in column else column for column in columns]
        return [_without(frame, one, hidden) if isinstance(one, Column) else one for one in written]

    return taken


def _may_have_star(column: Any) -> bool:
    text = str(column)
    return "*" in text or "regex" in text


def _without(frame: DataFrame, column: Column, hidden: Sequence[str]) -> Column:
    """A column whose stars do not stand for some columns of the frame."""
    spark = frame.sparkSession

    def other(node: Any) -> Any:
        kind = class_name(node)
        if kind == "UnresolvedFunction" and [class_name(child) for child in items(node.children())] == [_STAR]:
            (name,) = [str(part) for part in items(node.nameParts())][-1:]
            return node if name.lower() == "count" else None  # of all rows
        if kind == _REGEX:
            names = "|".join(hidden)
            return node.copy(f"(?!(?:{names})$)(?:{node.regexPattern()})", node.table(), node.caseSensitive())
        if kind not in (_STAR, _STAR_EXCEPT):
            return None
        target = [str(part) for part in items(node.target().get())] if node.target().isDefined() else []
        among = [name for name in hidden if not target or _is_of(frame, name, target)]
        if not among:
            return None
        if kind == _STAR_EXCEPT:
            more = [scala_sequence(spark, [name]) for name in among]
            excepts = scala_sequence(spark, [*items(node.excepts()), *more])
            return node.copy(node.target(), excepts, node.replacements())
        return parsed(spark, _star(target, among))

    return with_nodes(spark, column, other)


def _star(target: Sequence[str], hidden: Sequence[str]) -> str:
    return f"{'.'.join([*map(quoted, target), '*'])} EXCEPT ({', '.join(map(quoted, hidden))})"


def _is_of(frame: DataFrame, name: str, target: Sequence[str]) -> bool:
    """True if a column of the frame is called by the name of a frame, too, which is the target of a star."""
    fold = [part.lower() for part in target]
    for attribute in output_of(frame):
        qualifier = [str(part).lower() for part in items(attribute.qualifier())]
        if str(attribute.name()) == name and qualifier[-len(fold) :] == fold:
            return True
    return False
