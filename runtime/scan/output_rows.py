"""From a frame over the rows of a stage to what a task computes of them without Spark, if it gives the same rows.

As :mod:`.scan_plans`, for rows that are on their way out and cannot go back: what is not known to be the same for all
of them is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from ..catalyst.spark_expressions import (
    attribute_id,
    is_attribute,
    items,
    resolved_with_attributes,
    without_alias,
)
from ..catalyst.spark_plans import analyzed
from ..catalyst.spark_session import is_on
from ..catalyst.types.arrow_types import arrow_type
from ..jvm.gateway import java_class
from .expressions import functions  # noqa: F401  they are there wherever rows are computed
from .expressions.output_translations import output_translator
from .expressions.values import Batch, Value, all_of, filtered
from .parquet_scan import NotTakenError, is_scannable
from .scan_plans import columns_below, legacy_settings, reading_plan

#: Whether ``to_json`` leaves out fields that are null.
_IGNORE_NULLS = "spark.sql.jsonGenerator.ignoreNullFields"
#: Settings that change what these expressions give, and the values under which nothing is special.
_SETTINGS = {"spark.sql.jsonGenerator.writeNullIfWithDefaultValue": "true"}
#: The first version of Java that writes the shortest decimal of a double.
_SHORTEST_SINCE = 19


@dataclass(frozen=True)
class OutputRows:
    """How rows are made of others, each of one."""

    #: The columns of the given rows that are read, by place.
    places: tuple[int, ...]
    #: What lets a row through; None: all of them come.
    condition: Value | None
    #: The columns, by name, of columns that are called by their places.
    columns: tuple[tuple[str, Value], ...]

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are made of some.

        Raises:
            NotTakenError: one cannot be made, as in Spark; says why.
        """
        names = [_name(place) for place in self.places]
        arrays = [rows.column(place) for place in self.places]
        if not arrays:  # constants alone: a batch without columns has no rows
            names, arrays = ["rows"], [pa.nulls(rows.num_rows)]
        read = pa.RecordBatch.from_arrays(arrays, names=names)
        if self.condition is not None:
            read = filtered(read, self.condition, names)
        batch = Batch(read)
        made = [
            read.column(value.options[0]) if value.function == "column" else batch.of(value)
            for _, value in self.columns
        ]
        return pa.RecordBatch.from_arrays(made, names=[name for name, _ in self.columns])


@reading_plan()
def output_rows(frame: DataFrame, leaf: DataFrame) -> OutputRows:
    """How a task makes the rows of a frame of those of another one.

    Args:
        frame: a frame over ``leaf``.
        leaf: the given rows.

    Raises:
        NotTakenError: it is not known how; says why.
    """
    spark, plan, below = frame.sparkSession, analyzed(frame), analyzed(leaf)
    known, conditions = columns_below(spark, plan, below)
    given = {attribute_id(one): place for place, one in enumerate(items(below.output()))}

    def column(attribute: Any) -> Value:
        spark_type = str(attribute.dataType().simpleString())
        place = given.get(attribute_id(attribute))
        if place is None or not is_scannable(spark_type):
            raise NotTakenError(f"{attribute.sql()} is computed with, and is of type {spark_type}")
        if "CHAR_VARCHAR" in str(attribute.metadata().json()):
            raise NotTakenError(f"{attribute.sql()} is computed with, and has a type of limited length")
        return Value("column", arrow_type(DataType.fromDDL(spark_type)), (), (_name(place),))

    ignores = is_on(spark, _IGNORE_NULLS, default=True)
    translator = output_translator(column, before_19=_is_before_19(spark), leaves_out_nulls=ignores)
    condition = all_of([translator.sure_value(one) for one in conditions])
    columns = []
    for one in items(plan.output()):
        made = without_alias(resolved_with_attributes(spark, one, known))
        if is_attribute(made) and attribute_id(made) in given:
            value = Value("column", pa.null(), (), (_name(given[attribute_id(made)]),))
        else:
            value = translator.sure_value(made)
        columns.append((str(one.name()), value))
    if condition is not None or any(value.function not in ("column", "constant") for _, value in columns):
        _check_settings(spark)
    read = frozenset[str]().union(*(one.columns for _, one in columns), condition.columns if condition else ())
    return OutputRows(tuple(place for place in given.values() if _name(place) in read), condition, tuple(columns))


def _check_settings(spark: SparkSession) -> None:
    for conf in legacy_settings(spark):
        raise NotTakenError(f"{conf} is set, and values are computed")
    for conf, value in _SETTINGS.items():
        if str(spark.conf.get(conf, value)).lower() != value:
            raise NotTakenError(f"{conf} is not {value}")


def _is_before_19(spark: SparkSession) -> bool:
    version = java_class(spark, "java.lang.Runtime").version()
    return int(version.feature()) < _SHORTEST_SINCE


def _name(place: int) -> str:
    return f"c{place}"
