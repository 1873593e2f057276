"""From a frame that ends in one aggregation to a scan and partial aggregates that need no Spark, if they are the same.

What is known to give the same result to the bit is taken, nothing else: a node, expression, type, option or setting
that is not named here is Spark's.  Plans are the analyzed ones, which say what was asked for, before Spark's optimizer
has made something else of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from .arrow_types import arrow_type
from .filesystem import resolve
from .long_expressions import LongExpression, long_expression
from .micro_batch import plan_behind
from .parquet_scan import Condition, FilePart, NotTakenError, ParquetScan, ScanColumn, is_scannable
from .partial_calls import PartialCall, is_extreme, is_sum, is_whole_number
from .spark_expressions import class_name, constant, items, tree, with_attributes, without_alias
from .spark_plans import analyzed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
_COMPARISONS = {
    "EqualTo": ("equal", "equal"),
    "LessThan": ("less", "greater"),
    "LessThanOrEqual": ("less_equal", "greater_equal"),
    "GreaterThan": ("greater", "less"),
    "GreaterThanOrEqual": ("greater_equal", "less_equal"),
}
_CONSTANTS = ("Literal", "Cast", "UnaryMinus")
_COMPARED = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")
_KEYS = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")
_LEAST_PART_BYTES, _GREATEST_PART_BYTES = 4 * 1024 * 1024, 128 * 1024 * 1024


@dataclass(frozen=True)
class ScanKey:
    """A key column of the partial aggregates: a column of the files, or a window of one that is a time."""

    name: str
    #: The column; of a window that of its time.
    column: str
    #: Where windows start and end, in µs; None: it is the column itself.
    window: tuple[LongExpression, LongExpression] | None = None


@dataclass(frozen=True)
class PartialScan:
    """Partial aggregates of what a scan gives."""

    scan: ParquetScan
    keys: tuple[ScanKey, ...]
    calls: tuple[PartialCall, ...]


@dataclass(frozen=True)
class RecognisedScan:
    """A scan and its files."""

    partials: PartialScan
    #: Resolved, but not looked for.
    uris: tuple[str, ...]


def check_source(frame: DataFrame, least_bytes: int = 0) -> None:
    """Raise unless a frame is of Parquet files alone, a micro-batch too; at once, before anything is analyzed.

    Args:
        frame: the input.
        least_bytes: files that have less together are not worth it.

    Raises:
        NotTakenError: it is not.
    """
    try:
        _check_relation(frame.sparkSession, _relation(analyzed(frame)), least_bytes)
    except (Py4JError, PySparkException) as error:
        raise NotTakenError(f"Spark's plan cannot be read: {str(error).splitlines()[0]}") from error


def recognised(prepared: DataFrame, texts: Mapping[str, str]) -> RecognisedScan:
    """What a frame computes, for a task to do without Spark.

    Args:
        prepared: names and selects columns of one aggregation, on top of it.
        texts: by column the aggregate that users have written, for errors.

    Raises:
        NotTakenError: it is not known to be the same; says why.
    """
    spark = prepared.sparkSession
    try:
        return _recognised(spark, analyzed(prepared), texts)
    except (Py4JError, PySparkException) as error:
        raise NotTakenError(f"Spark's plan cannot be read: {str(error).splitlines()[0]}") from error


def _recognised(spark: SparkSession, plan: Any, texts: Mapping[str, str]) -> RecognisedScan:
    aggregate = plan.child() if class_name(plan) == "Project" else plan
    if class_name(plan) != "Project" or class_name(aggregate) != "Aggregate":
        raise NotTakenError(f"the rows are prepared by {class_name(aggregate)}, not by one aggregation")
    relation = _relation(aggregate.child())
    _check_relation(spark, relation, 0)
    known, conditions = _below(spark, aggregate.child())
    reader = _Reader(relation)
    condition = _all([reader.condition(one) for one in conditions])
    grouped = {}
    for one in items(aggregate.aggregateExpressions()):
        grouped[one.exprId().id()] = with_attributes(spark, without_alias(one), known)
    keys, calls = [], []
    for one in items(plan.projectList()):
        name, source = str(one.name()), without_alias(one)
        if class_name(source) != "AttributeReference" or source.exprId().id() not in grouped:
            raise NotTakenError(f"{one.sql()} is computed of what is aggregated")
        expression = grouped[source.exprId().id()]
        if class_name(expression) == "AggregateExpression":
            calls.append(reader.call(name, expression, texts.get(name, str(expression.sql()))))
        else:
            keys.append(reader.key(name, expression))
    if not keys:
        raise NotTakenError("there is no key")
    if len(keys) != aggregate.groupingExpressions().size():
        raise NotTakenError("not all keys are output")
    scan = ParquetScan(tuple(reader.columns.values()), condition)
    uris = tuple(map(str, relation.relation().inputFiles()))
    return RecognisedScan(PartialScan(scan, tuple(keys), tuple(calls)), uris)


def _relation(plan: Any) -> Any:
    found = list(items(plan.collectLeaves()))
    if len(found) == 1 and (behind := plan_behind(found[0])) is not None:
        return _relation(behind)
    if len(found) != 1 or class_name(found[0]) != "LogicalRelation":
        kinds = ", ".join(sorted({class_name(leaf) for leaf in found}))
        raise NotTakenError(f"the rows come from {kinds}, not from Parquet files")
    return found[0]


def _check_relation(spark: SparkSession, leaf: Any, least_bytes: int) -> None:
    relation = leaf.relation()
    if class_name(relation) != "HadoopFsRelation":
        raise NotTakenError(f"the rows come from {class_name(relation)}, not from Parquet files")
    file_format = str(relation.fileFormat().getClass().getName())
    if file_format != _FORMAT:
        raise NotTakenError(f"the files are read by {file_format.rpartition('.')[2]}, not as plain Parquet files")
    if class_name(relation.location()) not in _LISTINGS:
        raise NotTakenError(f"the files are listed by {class_name(relation.location())}")
    others = sorted(name for name in _names(relation.options()) if name.lower() not in _PATHS)
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


def _names(options: Any) -> list[str]:
    keys = options.keysIterator()
    found = []
    while keys.hasNext():
        found.append(str(keys.next()))
    return found


def _below(spark: SparkSession, plan: Any) -> tuple[Mapping[int, Any], list[Any]]:
    """What each column of a plan is in terms of its one leaf, by id, and the conditions that let rows through."""
    kind = class_name(plan)
    if kind == "LogicalRelation":
        return {}, []
    if kind == "LogicalRDD" and (behind := plan_behind(plan)) is not None:
        known, conditions = _below(spark, behind)
        columns = zip(items(plan.output()), items(behind.output()), strict=True)
        its = {one.exprId().id(): known.get(other.exprId().id(), other) for one, other in columns}
        return {**known, **its}, conditions
    if kind not in ("Project", "Filter", "SubqueryAlias"):
        raise NotTakenError(f"the rows go through {kind}")
    known, conditions = _below(spark, plan.child())
    if kind == "Filter":
        return known, [*conditions, with_attributes(spark, plan.condition(), known)]
    if kind == "Project":
        named = [one for one in items(plan.projectList()) if class_name(one) == "Alias"]
        made = {one.exprId().id(): with_attributes(spark, one.child(), known) for one in named}
        return {**known, **made}, conditions
    return known, conditions


def _all(conditions: list[Condition]) -> Condition | None:
    whole: Condition | None = None
    for one in conditions:
        whole = one if whole is None else ("and", whole, one)
    return whole


class _Reader:
    """Reads expressions over one relation, and notes its columns."""

    def __init__(self, leaf: Any) -> None:
        relation = leaf.relation()
        schema, partitions = (
            StructType.fromJson(json.loads(str(one.json())))
            for one in (relation.dataSchema(), relation.partitionSchema())
        )
        self._of_paths = {name.lower() for name in partitions.names}
        self._types = {field.name: field.dataType for field in schema.fields}
        self._ids = {one.exprId().id() for one in items(leaf.output())}
        self.columns: dict[str, ScanColumn] = {}

    def column(self, expression: Any, what: str) -> ScanColumn:
        """A column of the files; ``what`` it is for."""
        if class_name(expression) != "AttributeReference" or expression.exprId().id() not in self._ids:
            raise NotTakenError(f"{what} {expression.sql()} is computed")
        name = str(expression.name())
        spark_type = str(expression.dataType().simpleString())
        if name.lower() in self._of_paths or name not in self._types:
            raise NotTakenError(f"{what} {name} is no column of the files")
        if not is_scannable(spark_type):
            raise NotTakenError(f"{what} {name} has type {spark_type}")
        if "CHAR_VARCHAR" in str(expression.metadata().json()):
            raise NotTakenError(f"{what} {name} has a type of limited length")
        return self.columns.setdefault(name, ScanColumn(name, spark_type, arrow_type(self._types[name])))

    def condition(self, expression: Any) -> Condition:
        """What lets rows through."""
        kind = class_name(expression)
        if kind in ("And", "Or"):
            left, right = items(expression.children())
            return (kind.lower(), self.condition(left), self.condition(right))
        if kind == "Not":
            return ("not", self.condition(expression.child()))
        if kind in ("IsNull", "IsNotNull"):
            column = self.column(expression.child(), "column")
            return ("is_null" if kind == "IsNull" else "is_valid", column.name)
        if kind in _COMPARISONS:
            left, right = items(expression.children())
            operator, mirrored = _COMPARISONS[kind]
            if left.foldable():
                left, right, operator = right, left, mirrored
            column = self.column(left, "condition on")
            # Others may be constants of one query only, such as the time at which it began.
            is_literal = all(class_name(one) in _CONSTANTS for one in tree(right))
            value = constant(right) if is_literal and right.foldable() else None
            if (
                value is None
                or column.spark_type not in _COMPARED
                or str(right.dataType().simpleString()) != column.spark_type
            ):
                raise NotTakenError(f"condition {expression.sql()} is not of a column and a constant")
            return ("compare", operator, column.name, str(value) if column.spark_type == "string" else value)
        if kind == "AttributeReference" and str(expression.dataType().simpleString()) == "boolean":
            return ("column", self.column(expression, "condition").name)
        raise NotTakenError(f"condition {expression.sql()} is a {kind}")

    def key(self, name: str, expression: Any) -> ScanKey:
        """A key column."""
        if class_name(expression) == "CreateNamedStruct":
            return self._window(name, expression)
        column = self.column(expression, "key")
        is_small = pa.types.is_decimal(column.type) and column.type.precision <= 18
        if column.spark_type not in _KEYS and not is_small:
            raise NotTakenError(f"key {column.name} has type {column.spark_type}")
        return ScanKey(name, column.name)

    def _window(self, name: str, expression: Any) -> ScanKey:
        first, start, second, end = items(expression.children()) if expression.children().size() == 4 else [None] * 4
        if first is None or (str(constant(first)), str(constant(second))) != ("start", "end"):
            raise NotTakenError(f"key {expression.sql()} is a struct")
        times: dict[str, ScanColumn] = {}

        def time(attribute: Any) -> str:
            column = self.column(attribute, "window of")
            if column.spark_type not in ("timestamp", "timestamp_ntz"):
                raise NotTakenError(f"window of {column.name}, which is {column.spark_type}")
            return times.setdefault(column.name, column).name

        bounds = long_expression(start, time), long_expression(end, time)
        if bounds[1][:2] != ("add", bounds[0]) or bounds[1][2][0] != "constant":
            raise NotTakenError(f"key {name} is a window whose end does not follow from its start")
        if len(times) != 1:
            raise NotTakenError(f"key {name} is a window of {len(times)} columns")
        return ScanKey(name, next(iter(times)), bounds)

    def call(self, name: str, expression: Any, text: str) -> PartialCall:
        """A partial aggregate; ``text``: what users call it."""
        function = expression.aggregateFunction()
        kind = class_name(function)
        if bool(expression.isDistinct()) or expression.filter().isDefined():
            raise NotTakenError(f"{text} is not of all rows")
        children = list(items(function.children()))
        if kind not in ("Count", "Sum", "Min", "Max") or len(children) != 1 or "try_" in str(function.prettyName()):
            raise NotTakenError(f"{text} is not count, sum, min or max")
        child = children[0]
        if kind == "Count" and child.foldable() and constant(child) is not None:
            return PartialCall(name, "count_all", None, pa.int64())
        as_double = kind == "Sum" and class_name(child) == "Cast" and str(child.dataType().simpleString()) == "double"
        column = self.column(child.child() if as_double else child, f"{kind.lower()} of")
        if kind == "Count":
            return PartialCall(name, "count", column.name, pa.int64())
        if kind in ("Min", "Max"):
            if not is_extreme(column.type):
                raise NotTakenError(f"{text} is of type {column.spark_type}")
            return PartialCall(name, "min" if kind == "Min" else "max", column.name, column.type)
        if not (is_whole_number(column.type) if as_double else is_sum(column.type)):
            why = "depends on the order of rows" if pa.types.is_floating(column.type) else "may overflow"
            raise NotTakenError(f"{text} of type {column.spark_type} {why}")
        if as_double:
            return PartialCall(name, "sum", column.name, pa.float64())
        if pa.types.is_decimal(column.type):
            return PartialCall(name, "sum", column.name, pa.decimal128(column.type.precision + 10, column.type.scale))
        return PartialCall(name, "sum", column.name, pa.int64())


def check_first_file(found: RecognisedScan) -> None:
    """Raise if the first file is one that Spark has to read: most often they all are alike.

    Args:
        found: the scan.

    Raises:
        NotTakenError: it is.
    """
    for uri in found.uris[:1]:
        try:
            filesystem, path = resolve(unquote(uri))
        except (OSError, ValueError) as error:
            raise NotTakenError(f"{uri} cannot be found without Spark: {error}") from error
        found.partials.scan.check(filesystem, path)


def file_parts(uris: tuple[str, ...], tasks: int) -> tuple[fs.FileSystem, list[list[FilePart]]]:
    """The files of a scan, dealt to tasks.

    Args:
        uris: the files.
        tasks: how many run at once.

    Raises:
        NotTakenError: they cannot be found without Spark.
    """
    filesystem: fs.FileSystem | None = None
    paths = []
    try:
        for uri in uris:
            found, path = resolve(unquote(uri))  # Spark names files by URIs
            if filesystem is not None and not filesystem.equals(found):
                raise NotTakenError("the files are in several file systems")
            filesystem = found
            paths.append(path)
        filesystem = filesystem or fs.LocalFileSystem()
        infos = filesystem.get_file_info(paths)
    except (OSError, ValueError) as error:
        raise NotTakenError(f"the files cannot be found without Spark: {error}") from error
    missing = next((info.path for info in infos if info.type != fs.FileType.File), None)
    if missing is not None:
        raise NotTakenError(f"{missing} cannot be found without Spark")
    whole = sum(info.size for info in infos)
    most = min(_GREATEST_PART_BYTES, max(_LEAST_PART_BYTES, -(-whole // (2 * max(tasks, 1)))))
    parts = sorted(_parts(infos, most), key=lambda part: part.start - part.end)
    # The largest first, each to whoever has least.
    dealt = [(0, number, list[FilePart]()) for number in range(min(len(parts), -(-whole // most)))]
    for part in parts:
        size, number, its = heappop(dealt)
        heappush(dealt, (size + part.end - part.start, number, [*its, part]))
    return filesystem, [its for _, _, its in sorted(dealt, key=itemgetter(1))]


def _parts(infos: list[fs.FileInfo], most: int) -> Iterator[FilePart]:
    for info in infos:
        for start in range(0, info.size, most):
            yield FilePart(info.path, start, min(start + most, info.size))
