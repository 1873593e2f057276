"""From a frame that reads Parquet files to a scan of its rows that needs no Spark, if it gives the same rows.

As :mod:`.scan_plans`, for stages that need rows as they are: columns of the files under other names, behind filters.
What is not known to be the same is Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ..catalyst.prepared.micro_batch import plan_behind
from ..catalyst.spark_expressions import (
    attribute_id,
    class_name,
    constant,
    items,
    resolved_with_attributes,
    without_alias,
)
from ..catalyst.spark_plans import analyzed, input_files
from ..spark_io.file_numbers import ReadFile, listed_files
from .expression_reader import ExpressionReader
from .expressions.values import Value, all_of
from .parquet_scan import NotTakenError, ParquetScan
from .scan_plans import check_relation, reading_plan, relation_of

_LOCAL = re.compile("^file:/+")
#: Types of keys besides small decimals.
_KEYS = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")
#: By type of Spark's the wider whole numbers that it is cast to without a choice.
_WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
}


@dataclass(frozen=True)
class RecognisedRows:
    """The rows of one part of an input."""

    scan: ParquetScan
    #: What lets rows through; None: all of them.
    condition: Value | None
    #: For each column that is wanted the column of the files.
    columns: tuple[tuple[str, str], ...]
    #: Resolved, but not looked for.
    uris: tuple[str, ...]
    #: Columns that are the same in all rows, with their values.
    constants: Mapping[str, Any]
    #: By URI without escapes the file as Spark has listed it; empty: nobody has asked.
    files: Mapping[str, ReadFile]


@reading_plan()
def recognised_rows(
    frame: DataFrame, wanted: Sequence[str], keys: Sequence[str], constants: Sequence[str] = (), *, lists: bool = False
) -> RecognisedRows:
    """How a task reads the rows of a frame without Spark.

    Args:
        frame: of one read of files.
        wanted: its columns that are needed.
        keys: those of them that are compared and hashed.
        constants: columns whose value is wanted of the whole part.
        lists: whether it matters which file comes first.

    Raises:
        NotTakenError: it is not known to be the same; says why.
    """
    return _recognised(frame.sparkSession, analyzed(frame), wanted, keys, constants, lists)


@reading_plan()
def recognised_micro_batch(batch: DataFrame, wanted: Sequence[str]) -> RecognisedRows:
    """How a task reads the rows of a micro-batch without Spark; none is filtered out.

    Args:
        batch: it, while it is being handed over.
        wanted: its columns that are needed.

    Raises:
        NotTakenError: as of :func:`recognised_rows`.
    """
    plan = plan_behind(analyzed(batch))
    if plan is None:
        raise NotTakenError("nobody knows what the micro-batch is made of")
    found = _recognised(batch.sparkSession, plan, wanted, (), (), lists=False)
    if found.condition is not None:
        raise NotTakenError("not all rows are wanted")
    return found


def _recognised(
    spark: SparkSession, plan: Any, wanted: Sequence[str], keys: Sequence[str], constants: Sequence[str], lists: bool
) -> RecognisedRows:
    output = {str(one.name()): one for one in items(plan.output())}
    names = [*dict.fromkeys([*wanted, *constants])]
    missing = [name for name in names if name not in output]
    if missing or len(output) < plan.output().size():
        raise NotTakenError(f"the rows have no one column {', '.join(missing)}")
    relation = relation_of(plan)
    check_relation(spark, relation, 0)
    expressions, conditions = _below(spark, plan, [output[name] for name in names])
    found = dict(zip(names, expressions, strict=True))
    reader = ExpressionReader.of_files(relation, "spark")
    condition = all_of([reader.value(one) for one in conditions])
    columns = []
    for name in wanted:
        value = reader.value(_plain(found[name], name in keys))
        if value.function != "column":
            raise NotTakenError(f"{found[name].sql()} is computed")
        if reader.of_paths:
            raise NotTakenError(f"column {next(iter(reader.of_paths))} is of the files' paths")
        column = reader.columns[value.options[0]]
        is_small = pa.types.is_decimal(column.type) and column.type.precision <= 18
        if name in keys and column.spark_type not in _KEYS and not is_small:
            raise NotTakenError(f"key {column.name} has type {column.spark_type}")
        columns.append((name, column.name))
    of_part = {name: constant(found[name]) for name in constants}
    unknown = [name for name, value in of_part.items() if value is None]
    if unknown:
        raise NotTakenError(f"{', '.join(unknown)} differs from row to row")
    uris = input_files(spark, relation.relation())
    files = listed_of(spark, relation.relation(), uris) if lists else {}
    return RecognisedRows(ParquetScan(tuple(reader.columns.values())), condition, tuple(columns), uris, of_part, files)


def listed_of(spark: SparkSession, relation: Any, uris: Sequence[str]) -> dict[str, ReadFile]:
    """By URI without escapes the files of a relation, as Spark has listed them.

    Args:
        spark: the session that plans.
        relation: a ``HadoopFsRelation``.
        uris: of the files.

    Raises:
        NotTakenError: not all of them are listed.
    """
    found = listed_files(spark, relation.location()) or ()
    listed = {_called(path): (time_ms, path) for time_ms, path in found}
    files = {unquote(uri): listed[_called(unquote(uri))] for uri in uris if _called(unquote(uri)) in listed}
    if len(files) < len(uris):
        raise NotTakenError("nobody knows which of the files comes first")
    return files


def _called(path: str) -> str:
    """A path as all write it: before that of a local file some have one slash, and some have three."""
    return _LOCAL.sub("file:/", path)


def _below(spark: SparkSession, plan: Any, wanted: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Some columns of a plan, and the conditions that let rows through, in terms of its one leaf."""
    wanted, conditions = list(wanted), list[Any]()
    while (kind := class_name(plan)) != "LogicalRelation":
        if kind not in ("Project", "Filter", "SubqueryAlias"):
            raise NotTakenError(f"the rows go through {kind}")
        if kind == "Filter":
            conditions.append(plan.condition())
        elif kind == "Project":
            named = [one for one in items(plan.projectList()) if class_name(one) == "Alias"]
            made = {attribute_id(one): one.child() for one in named}
            wanted = [resolved_with_attributes(spark, one, made) for one in wanted]
            conditions = [resolved_with_attributes(spark, one, made) for one in conditions]
        plan = plan.child()
    return wanted, conditions


def _plain(expression: Any, is_key: bool) -> Any:
    """An expression without names and casts that change nothing, of a key also those to wider whole numbers."""
    while True:
        expression = without_alias(expression)
        if class_name(expression) != "Cast":
            return expression
        child = expression.child()
        before, after = (str(one.dataType().simpleString()) for one in (child, expression))
        if before != after and not (is_key and after in _WIDER.get(before, ())):
            return expression
        expression = child
