"""From a frame that ends in one aggregation to a scan and partial aggregates that need no Spark, if they are the same.

What is known to give the same result to the bit is taken, nothing else: a node, expression, type, option or setting
that is not named here is Spark's.  Plans are the analyzed ones, which say what was asked for, before Spark's optimizer
has made something else of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..catalyst.prepared.micro_batch import plan_behind
from ..catalyst.spark_expressions import (
    attribute_id,
    class_name,
    is_attribute,
    items,
    resolved_with_attributes,
    without_alias,
)
from ..catalyst.spark_plans import analyzed, input_files, leaves
from ..catalyst.spark_session import session_settings
from ..jvm.gateway import scala_entries
from .expression_reader import ExpressionReader
from .expressions import json_fields
from .expressions.translator import constant_of
from .expressions.values import Batch, Value, all_of
from .parquet_scan import NotTakenError, ParquetScan
from .partial_calls import PartialCall
from .partial_scans import PartialScan, RecognisedScan, ScanKey
from .partition_values import files_with_values

_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_LISTINGS = ("InMemoryFileIndex", "CatalogFileIndex")
#: Options of a reader that say which files are read and nothing about how they are; the latter ones of streams.
_PATHS = {"path", "paths", "__paths__", "__globpaths__", "basepath"}
_PATHS |= {"maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "cleansource", "sourcearchivedir"}
#: Settings that the reader obeys, and the values under which nothing is special.
_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "corrected",
    "spark.sql.parquet.int96AsTimestamp": "true",
}
#: Settings that change what expressions give begin so, but for those of Parquet files, which are above, and of Python
#: functions.
_LEGACY, _OTHER_LEGACY = "spark.sql.legacy.", ("spark.sql.legacy.parquet.", "spark.sql.legacy.execution.")

#: Settings that Spark's analyzer looks at begin so.
_PLANNING = (
    *(_LEGACY, "spark.sql.ansi.", "spark.sql.session.", "spark.sql.caseSensitive", "spark.sql.decimalOperations."),
    *("spark.sql.json.", "spark.sql.columnNameOfCorruptRecord"),
    *("spark.sql.timestampType", "spark.sql.storeAssignmentPolicy", "spark.sql.mapKeyDedupPolicy"),
)


@contextmanager
def reading_plan(*more: type[Exception]) -> Iterator[None]:
    """Where a plan of Spark's cannot be read in here, Spark takes the rows itself.

    Args:
        more: what else than Spark's own errors says so.

    Raises:
        NotTakenError: it cannot.
    """
    try:
        yield
    except (Py4JError, PySparkException, *more) as error:
        raise NotTakenError(f"Spark's plan cannot be read: {str(error).splitlines()[0]}") from error


@reading_plan()
def check_source(frame: DataFrame, least_bytes: int = 0) -> None:
    """Raise unless a frame is of Parquet files alone, a micro-batch too; at once, before anything is analyzed.

    Args:
        frame: the input.
        least_bytes: files that have less together are not worth it.

    Raises:
        NotTakenError: it is not.
    """
    check_relation(frame.sparkSession, relation_of(analyzed(frame)), least_bytes)


@reading_plan()
def recognised(prepared: DataFrame, texts: Mapping[str, str], float_sums: str) -> RecognisedScan:
    """What a frame computes, for a task to do without Spark.

    Args:
        prepared: names and selects columns of one aggregation, on top of it.
        texts: by column the aggregate that users have written, for errors.
        float_sums: ``fast`` or ``spark``, as ``execution.backlog.float-sums``.

    Raises:
        NotTakenError: it is not known to be the same; says why.
    """
    spark, plan = prepared.sparkSession, analyzed(prepared)
    aggregate = _aggregate_of(plan)
    relation = relation_of(aggregate.child())
    check_relation(spark, relation, 0)
    known, conditions = columns_below(spark, aggregate.child())
    reader = ExpressionReader.of_files(relation, float_sums)
    keys, calls, condition = _computed(spark, plan, known, conditions, reader, texts)
    uris, constants = _files(spark, relation.relation(), reader, condition)
    left = [part for part in condition if not part.columns or not part.columns <= reader.of_paths.keys()]
    return RecognisedScan(_partials(reader, keys, calls, left), uris, constants)


def recognised_rows(prepared: DataFrame, schema: StructType, texts: Mapping[str, str]) -> PartialScan:
    """What a frame over rows that are no files' computes, for a task that gets these rows to do without Spark.

    Args:
        prepared: names and selects columns of one aggregation over a frame without rows, on top of it.
        schema: the columns of that.
        texts: as of :func:`recognised`.

    Raises:
        NotTakenError: it is not known to be the same; says why.
    """
    spark = prepared.sparkSession
    types = {field.name: field.dataType for field in schema.fields}
    if len(set(map(str.lower, types))) < len(schema.fields):
        raise NotTakenError("two columns have the same name")
    with reading_plan(ValueError):
        plan = analyzed(prepared)
        aggregate = _aggregate_of(plan)
        (leaf,) = leaves(plan)
        known, conditions = columns_below(spark, aggregate.child(), leaf)
        # The rows have an order, in which sums are rounded as Spark rounds them.
        reader = ExpressionReader(leaf, types, {}, "fast")
        keys, calls, condition = _computed(spark, plan, known, conditions, reader, texts)
    return _partials(reader, keys, calls, condition)


def _computed(
    spark: SparkSession,
    plan: Any,
    known: Mapping[int, Any],
    conditions: Sequence[Any],
    reader: ExpressionReader,
    texts: Mapping[str, str],
) -> tuple[list[ScanKey], list[PartialCall], list[Value]]:
    """The keys and partial aggregates of a plan, and what has to hold for a row."""
    condition = [part for one in conditions for part in _parts_of(reader.value(one))]
    keys, calls = _keys_and_calls(spark, plan, known, reader, texts)
    _check_settings(spark, [*condition, *reader.computed.values()])
    return keys, calls, condition


def _aggregate_of(plan: Any) -> Any:
    """The aggregation that columns of a plan are named and selected of."""
    aggregate = plan.child() if class_name(plan) == "Project" else plan
    if class_name(plan) != "Project" or class_name(aggregate) != "Aggregate":
        raise NotTakenError(f"the rows are prepared by {class_name(aggregate)}, not by one aggregation")
    return aggregate


def _keys_and_calls(
    spark: SparkSession, plan: Any, known: Mapping[int, Any], reader: ExpressionReader, texts: Mapping[str, str]
) -> tuple[list[ScanKey], list[PartialCall]]:
    """The keys and partial aggregates of a plan that ends in one aggregation.

    Args:
        spark: the session that plans.
        plan: the plan.
        known: its columns in terms of its leaf, by id.
        reader: reads them.
        texts: as of :func:`recognised`.
    """
    aggregate = plan.child()
    grouped = {}
    for one in items(aggregate.aggregateExpressions()):
        grouped[attribute_id(one)] = resolved_with_attributes(spark, without_alias(one), known)
    keys, calls = [], []
    for one in items(plan.projectList()):
        name, source = str(one.name()), without_alias(one)
        if not is_attribute(source) or attribute_id(source) not in grouped:
            raise NotTakenError(f"{one.sql()} is computed of what is aggregated")
        expression = grouped[attribute_id(source)]
        if class_name(expression) == "AggregateExpression":
            calls.append(reader.call(name, expression, texts.get(name, str(expression.sql()))))
        else:
            keys.append(reader.key(name, expression))
    if not keys:
        raise NotTakenError("there is no key")
    if len(keys) != aggregate.groupingExpressions().size():
        raise NotTakenError("not all keys are output")
    return keys, calls


def _partials(
    reader: ExpressionReader, keys: list[ScanKey], calls: list[PartialCall], condition: list[Value]
) -> PartialScan:
    """What is computed; ``condition``: what has to hold for a row."""
    keys, calls = _apart(reader, keys, calls)
    scan = ParquetScan(tuple(reader.columns.values()), tuple(reader.of_paths.values()))
    return PartialScan(scan, tuple(keys), tuple(calls), all_of(condition), tuple(reader.computed.items()))


def _parts_of(condition: Value) -> list[Value]:
    """Conditions that hold together if and only if one does."""
    if condition.function != "and":
        return [condition]
    return [part for one in condition.arguments for part in _parts_of(one)]


def _apart(
    reader: ExpressionReader, keys: list[ScanKey], calls: list[PartialCall]
) -> tuple[list[ScanKey], list[PartialCall]]:
    """Calls of columns that have no key's name, unless they are that key."""
    names = {key.name for key in keys if key.column != key.name}
    others = {}
    for call in calls:
        if call.column in names and call.column not in others:
            others[call.column] = reader.named(reader.computed[call.column], f"{call.column} of the files", again=True)
    return keys, [replace(call, column=others.get(call.column or "", call.column)) for call in calls]


def _check_settings(spark: SparkSession, values: list[Value]) -> None:
    if all(value.function == "column" for value in values):
        return
    for conf in legacy_settings(spark):
        raise NotTakenError(f"{conf} is set, and values are computed")
    if any("from_json" in value.functions for value in values):
        for conf, plain in json_fields.SETTINGS.items():
            if (found := session_settings(spark).get(conf, plain)) != plain:
                raise NotTakenError(f"{conf} is {found}, and values are read from JSON")


def legacy_settings(spark: SparkSession) -> tuple[str, ...]:
    """The settings of a session that change what expressions give, and are set."""
    found = (conf for conf in session_settings(spark) if conf.startswith(_LEGACY))
    return tuple(sorted(conf for conf in found if not conf.startswith(_OTHER_LEGACY)))


def planning_settings(spark: SparkSession) -> tuple[str, ...]:
    """The settings of a session that change what Spark's analyzer makes of a frame, and are set, with their values."""
    found = session_settings(spark).items()
    return tuple(sorted(f"{conf}={value}" for conf, value in found if conf.startswith(_PLANNING)))


def _files(
    spark: SparkSession, relation: Any, reader: ExpressionReader, condition: list[Value]
) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """The files that may have rows for which a condition holds, and the values of their paths."""
    if not reader.of_paths:
        return input_files(spark, relation), ()
    names = list(reader.partition_types)
    places = [names.index(name) for name in reader.of_paths]
    columns = list(reader.of_paths.values())
    of_paths = [part for part in condition if part.columns and part.columns <= reader.of_paths.keys()]
    holds: dict[tuple[Any, ...], bool] = {}
    uris, constants = [], []
    for uri, values in files_with_values(spark, relation):
        its = tuple(constant_of(values[at], column.type) for at, column in zip(places, columns, strict=True))
        if its not in holds:
            arrays = [pa.array([value], column.type) for value, column in zip(its, columns, strict=True)]
            row = Batch(pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns]))
            holds[its] = all(row.of(part)[0].as_py() is True for part in of_paths)
        if holds[its]:
            uris.append(uri)
            constants.append(its)
    return tuple(uris), tuple(constants)


def source_bytes(frame: DataFrame) -> int | None:
    """How large the files of a frame that is read from one place are; None: it is not, or not of files."""
    try:
        relation = relation_of(analyzed(frame)).relation()
        return int(str(relation.sizeInBytes())) if class_name(relation) == "HadoopFsRelation" else None
    except (NotTakenError, Py4JError, PySparkException):
        return None


def relation_of(plan: Any) -> Any:
    found = list(items(plan.collectLeaves()))
    if len(found) == 1 and (behind := plan_behind(found[0])) is not None:
        return relation_of(behind)
    if len(found) != 1 or class_name(found[0]) != "LogicalRelation":
        kinds = ", ".join(sorted({class_name(leaf) for leaf in found}))
        if len(found) > 1:
            raise NotTakenError(f"the rows come from {len(found)} reads ({kinds}) that are not united last")
        raise NotTakenError(f"the rows come from {kinds}, not from Parquet files")
    return found[0]


def check_relation(spark: SparkSession, leaf: Any, least_bytes: int) -> None:
    """Raise unless a relation is of Parquet files that are read without options or settings of their own.

    Args:
        spark: the session that plans.
        leaf: the relation.
        least_bytes: files that have less together are not worth it.

    Raises:
        NotTakenError: it is not; says why.
    """
    relation = leaf.relation()
    if class_name(relation) != "HadoopFsRelation":
        raise NotTakenError(f"the rows come from {class_name(relation)}, not from Parquet files")
    file_format = str(relation.fileFormat().getClass().getName())
    if file_format != _FORMAT:
        raise NotTakenError(f"the files are read by {file_format.rpartition('.')[2]}, not as plain Parquet files")
    if class_name(relation.location()) not in _LISTINGS:
        raise NotTakenError(f"the files are listed by {class_name(relation.location())}")
    others = sorted(name for name, _ in scala_entries(relation.options()) if name.lower() not in _PATHS)
    if others:
        raise NotTakenError(f"the reader has the option {', '.join(others)}")
    # Spark asks the session in which the files were named, whoever plans.
    for (name, value), conf in product(_SETTINGS.items(), (spark.conf, relation.sparkSession().conf())):
        found = str(conf.get(name, value))
        if found.lower() != value:
            raise NotTakenError(f"{name} is {found}")
    size = int(str(relation.sizeInBytes()))
    if size < least_bytes:
        raise NotTakenError(f"the files have {size / 2**20:.1f} MiB, and from {least_bytes / 2**20:.0f} MiB on it pays")


def columns_below(spark: SparkSession, plan: Any, leaf: Any = None) -> tuple[Mapping[int, Any], list[Any]]:
    """What each column of a plan is in terms of its one leaf, by id, and the conditions that let rows through.

    Args:
        spark: the session that plans.
        plan: the plan.
        leaf: its leaf; None: a relation.

    Raises:
        NotTakenError: something else than projections and filters is between them.
    """
    kind = class_name(plan)
    if kind == "LogicalRelation" if leaf is None else plan.equals(leaf):
        return {}, []
    if kind == "LogicalRDD" and (behind := plan_behind(plan)) is not None:
        known, conditions = columns_below(spark, behind)
        columns = zip(items(plan.output()), items(behind.output()), strict=True)
        its = {attribute_id(one): known.get(attribute_id(other), other) for one, other in columns}
        return {**known, **its}, conditions
    if kind not in ("Project", "Filter", "SubqueryAlias"):
        raise NotTakenError(f"the rows go through {kind}")
    known, conditions = columns_below(spark, plan.child(), leaf)
    if kind == "Filter":
        return known, [*conditions, resolved_with_attributes(spark, plan.condition(), known)]
    if kind == "Project":
        named = [one for one in items(plan.projectList()) if class_name(one) == "Alias"]
        made = {attribute_id(one): resolved_with_attributes(spark, one.child(), known) for one in named}
        return {**known, **made}, conditions
    return known, conditions
