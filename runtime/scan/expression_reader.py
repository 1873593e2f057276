"""Reads the expressions of an aggregation over one relation, or over rows that Spark hands over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from ..catalyst.spark_expressions import attribute_id, class_name, constant, items
from ..catalyst.types.arrow_types import arrow_type
from .expressions.long_expressions import later_expression, long_expression
from .expressions.translations import translator
from .expressions.values import Value, all_of
from .parquet_scan import NotTakenError, ScanColumn, is_scannable
from .partial_calls import PartialCall, is_element, is_extreme, is_sum, is_whole_number
from .partial_scans import ScanKey


class ExpressionReader:
    """Reads expressions over one leaf of a plan, and notes its columns and what is computed of them.

    Args:
        leaf: the leaf.
        types: its columns, but for those that are read off paths.
        partition_types: the columns that are read off paths.
        float_sums: ``fast`` or ``spark``, as ``execution.backlog.float-sums``.
    """

    def __init__(
        self, leaf: Any, types: Mapping[str, DataType], partition_types: Mapping[str, DataType], float_sums: str
    ) -> None:
        self.partition_types = partition_types
        self._types = types
        #: Users may write a name in another case than the files.
        self._names = {attribute_id(one): str(one.name()) for one in items(leaf.output())}
        self._float_sums = float_sums
        self._translator = translator(self._column)
        self.columns: dict[str, ScanColumn] = {}
        self.of_paths: dict[str, ScanColumn] = {}
        #: What keys and calls are of, by names of its own.
        self.computed: dict[str, Value] = {}

    @classmethod
    def of_files(cls, leaf: Any, float_sums: str) -> ExpressionReader:
        """Reads expressions over a relation of files; the arguments are those of the class."""
        relation = leaf.relation()
        types, partition_types = (
            {field.name: field.dataType for field in StructType.fromJson(json.loads(str(one.json()))).fields}
            for one in (relation.dataSchema(), relation.partitionSchema())
        )
        return cls(leaf, types, partition_types, float_sums)

    def value(self, expression: Any) -> Value:
        """What an expression is."""
        return self._translator.value(expression)

    def _column(self, attribute: Any) -> Value:
        spark_type = str(attribute.dataType().simpleString())
        name = self._names.get(attribute_id(attribute))
        if name is None:
            raise NotTakenError(f"column {attribute.name()} is not of the files")
        if not is_scannable(spark_type):
            raise NotTakenError(f"column {name} has type {spark_type}")
        if "CHAR_VARCHAR" in str(attribute.metadata().json()):
            raise NotTakenError(f"column {name} has a type of limited length")
        is_of_path = name in self.partition_types
        known = self.partition_types if is_of_path else self._types
        if name not in known or (not is_of_path and name.lower() in map(str.lower, self.partition_types)):
            raise NotTakenError(f"column {name} is not of the files")
        columns = self.of_paths if is_of_path else self.columns
        column = columns.setdefault(name, ScanColumn(name, spark_type, arrow_type(known[name])))
        return Value("column", column.type, (), (name,))

    def named(self, value: Value, text: str, *, again: bool = False) -> str:
        """The name of a value among what is computed.

        Args:
            value: the value.
            text: a name for it, if it is no column.
            again: True: another one than it may have already.
        """
        if not again:
            for name, known in self.computed.items():
                if known == value:
                    return name
            if value.function == "column":
                text = value.options[0]
        while text in self.computed or (again and text in self._types):
            text += " "
        self.computed[text] = value
        return text

    def key(self, name: str, expression: Any) -> ScanKey:
        """A key column."""
        if class_name(expression) == "CreateNamedStruct":
            return self._window(name, expression)
        value = self.value(expression)
        is_small = pa.types.is_decimal(value.type) and value.type.precision <= 18
        if pa.types.is_floating(value.type) or (pa.types.is_decimal(value.type) and not is_small):
            raise NotTakenError(f"key {expression.sql()} has type {expression.dataType().simpleString()}")
        return ScanKey(name, self.named(value, str(expression.sql())))

    def _window(self, name: str, expression: Any) -> ScanKey:
        first, start, second, end = items(expression.children()) if expression.children().size() == 4 else [None] * 4
        if first is None or (str(constant(first)), str(constant(second))) != ("start", "end"):
            raise NotTakenError(f"key {expression.sql()} is a struct")
        times: set[str] = set()

        def time(source: Any) -> str:
            value = self.value(source)
            if not pa.types.is_timestamp(value.type):
                raise NotTakenError(f"window of {source.sql()}, which is {value.type}")
            found = self.named(value, str(source.sql()))
            times.add(found)
            return found

        begin = long_expression(start, time)
        bounds = begin, later_expression(end, start, begin, time)
        if bounds[1][:2] != ("add", bounds[0]) or bounds[1][2][0] != "constant":
            raise NotTakenError(f"key {name} is a window whose end does not follow from its start")
        if len(times) != 1:
            raise NotTakenError(f"key {name} is a window of {len(times)} columns")
        return ScanKey(name, next(iter(times)), bounds)

    def call(self, name: str, expression: Any, text: str) -> PartialCall:
        """A partial aggregate.

        Args:
            name: of its column.
            expression: Spark's.
            text: what users call it.

        Raises:
            NotTakenError: it is not known to be the same; says why.
        """
        function = expression.aggregateFunction()
        kind = class_name(function)
        if bool(expression.isDistinct()) and kind not in ("Min", "Max"):
            raise NotTakenError(f"{text} is of different values")
        children = list(items(function.children()))
        if kind == "CollectSet" and "DISTINCT" in text:
            return self._set(name, text, expression)
        if kind not in ("Count", "Sum", "Min", "Max") or "try_" in str(function.prettyName()):
            raise NotTakenError(f"{text} is not count, sum, min or max")
        condition = self._filter(expression)
        if kind == "Count" and len(children) > 1:
            # Rows that have values of all of them.
            conditions = [Value("is_valid", pa.bool_(), (self.value(child),)) for child in children]
            conditions += [] if condition is None else [condition]
            column = self._under(all_of(conditions), Value("constant", pa.bool_(), (), (True,)), text)
            return PartialCall(name, "count", column, pa.int64())
        child = children[0]
        if kind == "Count" and child.foldable() and constant(child) is not None and condition is None:
            return PartialCall(name, "count_all", None, pa.int64())
        if kind == "Sum":
            return self._sum(name, text, child, condition)
        value = self.value(child)
        shown = str(child.sql())
        if kind == "Count":
            return PartialCall(name, "count", self._under(condition, value, shown), pa.int64())
        if not is_extreme(value.type):
            raise NotTakenError(f"{text} is of type {child.dataType().simpleString()}")
        column = self._under(condition, value, shown)
        return PartialCall(name, "min" if kind == "Min" else "max", column, value.type)

    def _filter(self, expression: Any) -> Value | None:
        return self.value(expression.filter().get()) if expression.filter().isDefined() else None

    def _set(self, name: str, text: str, expression: Any) -> PartialCall:
        """The different values, which a count or a sum is made of: nobody sees their order."""
        (child,) = items(expression.aggregateFunction().children())
        value = self.value(child)
        if not is_element(value.type):
            raise NotTakenError(f"{text} is of type {child.dataType().simpleString()}")
        column = self._under(self._filter(expression), value, str(child.sql()))
        return PartialCall(name, "set", column, pa.list_(pa.field("element", value.type, nullable=False)))

    def _sum(self, name: str, text: str, child: Any, condition: Value | None) -> PartialCall:
        """A sum; an average has one of its values as doubles."""
        value, shown = self.value(child), str(child.sql())
        if pa.types.is_floating(value.type):
            of_whole = value.function == "to_real" and is_whole_number(value.arguments[0].type)
            if self._float_sums == "fast":
                if value.type != pa.float64():
                    value = Value("to_real", pa.float64(), (value,))
                return PartialCall(name, "sum", self._under(condition, value, shown), pa.float64(), is_rounded=True)
            if not of_whole:
                raise NotTakenError(f"{text} depends on the order of rows (execution.backlog.float-sums = spark)")
            return PartialCall(name, "sum", self._under(condition, value.arguments[0], shown), pa.float64())
        if not is_sum(value.type):
            raise NotTakenError(f"{text} of type {child.dataType().simpleString()} may overflow")
        column = self._under(condition, value, shown)
        if pa.types.is_decimal(value.type):
            return PartialCall(name, "sum", column, pa.decimal128(value.type.precision + 10, value.type.scale))
        return PartialCall(name, "sum", column, pa.int64())

    def _under(self, condition: Value | None, value: Value, text: str) -> str:
        """The name of what is null in rows for which a condition of the aggregate does not hold."""
        if condition is not None:
            value = Value("case", value.type, (condition, value, Value("constant", value.type, (), (None,))))
            text = f"{text} under a condition"
        return self.named(value, text)
