"""Arguments of aggregates go to Spark as SQL text: the check that the text means what the user has written.

Spark writes the text for people to read.  It leaves out what most readers do not miss: the names of a struct's fields,
casts to nested types, options of functions; and settings of the session change what a literal in it means.  So Spark
analyzes the text once more, and what is not the same expression is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from ..errors import PlanError
from .expressions import class_name, items, with_children

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_texts(template: DataFrame, texts: Sequence[tuple[str, Any]]) -> None:
    """Compare what was written with what its text says.

    Args:
        template: the frame that the arguments were resolved against.
        texts: each text, and Spark's analyzed expression that it stands for.

    Raises:
        PlanError: a text says something else; what is not even an expression is another's to refuse.
    """
    jvm: Any = template.sparkSession._jvm
    for (text, expression), said in zip(texts, _analyzed(template, [text for text, _ in texts]), strict=True):
        if said is not None and not _same(jvm, expression, said):
            raise PlanError(
                f"agg: the argument {text} cannot be taken over: its SQL text means something else in this session"
                " (names of struct fields, casts to nested types and options get lost); compute it with withColumn"
                " before groupBy and aggregate the column"
            )


def _analyzed(template: DataFrame, texts: Sequence[str]) -> list[Any]:
    """What Spark takes each text for; None: it cannot tell."""
    try:
        columns = [F.expr(text).alias(f"a{place}") for place, text in enumerate(texts)]
        plan: Any = template.select(*columns)._jdf.queryExecution().analyzed()
        found = list(items(plan.projectList()))
    except (AnalysisException, ParseException):
        found = []
    if len(found) != len(texts):  # one of them is no expression, or stands for several columns
        return [None] if len(texts) == 1 else [one for text in texts for one in _analyzed(template, [text])]
    return [one.child() if class_name(one) == "Alias" else one for one in found]


def _same(jvm: Any, one: Any, other: Any) -> bool:
    """True for one expression; constants may be written in two ways: a typed null or a float is a cast as text."""
    if one.semanticEquals(other):
        return True
    if one.foldable() and other.foldable() and one.dataType().json() == other.dataType().json():
        try:
            return bool(one.eval(None) == other.eval(None))
        except Py4JJavaError:
            pass  # a constant that is an error, or that only Spark's optimizer can compute
    children, others = list(items(one.children())), list(items(other.children()))
    if not children or len(children) != len(others) or class_name(one) != class_name(other):
        return False
    if not all(_same(jvm, child, its) for child, its in zip(children, others, strict=True)):
        return False
    return bool(with_children(jvm, one, others).semanticEquals(other))
