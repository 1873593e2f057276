"""The rows that a processor's keyed stage takes: those of one input, or of two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ...errors import invalid_processor
from ...runtime.catalyst.columns import columns_ddl
from ...runtime.catalyst.spark_session import empty_frame
from ...runtime.operators.join.columns import join_key_column
from ...runtime.operators.join.late_rows import late_sides_schema
from ..inputs.event_time import Watermark, check_one_event_time
from ..inputs.inputs import Inputs
from ..inputs.schemas import check_key_type, quoted_columns, same_type
from ..inputs.sides import Side, united_sides
from .keys import KeyColumns, Keys
from .stage import StageInput

COGROUP = "cogroup"


@dataclass(frozen=True)
class ProcessorRows:
    """Keyed rows, and what a processor gets of them."""

    #: With a real column for each key.
    columns: KeyColumns
    watermark: Watermark | None
    #: Their columns as the operator takes them.
    taken: StructType
    #: The same as late rows are handed out.
    schema: StructType
    #: The columns of left and right rows, as users know them; None: there is one input.
    sides: tuple[StructType, StructType] | None = None

    @property
    def inputs(self) -> Inputs:
        return self.columns.inputs

    @property
    def key_schema(self) -> StructType:
        """The keys under the labels that users know."""
        return self.columns.schema


def rows_of_one(rows: StageInput, keys: Keys, method: str) -> ProcessorRows:
    """The rows of one input; ``method`` takes them."""
    _check_keys(keys, method)
    _check_event_times(rows, method)
    return ProcessorRows(keys.as_columns(rows.inputs), rows.watermark, rows.schema, rows.schema)


def rows_of_two(left: StageInput, left_keys: Keys, right: StageInput, right_keys: Keys, method: str) -> ProcessorRows:
    """The rows of two inputs, each grouped by as many keys; these are called as the left one's.

    Args:
        left: the rows of one side.
        left_keys: its keys.
        right: those of the other.
        right_keys: its keys.
        method: takes them.

    Raises:
        PlanError: the keys, or the inputs, do not fit together.
    """
    for rows, keys in ((left, left_keys), (right, right_keys)):
        _check_keys(keys, method)
        _check_event_times(rows, method)
    key_schema = _common_keys(left.inputs, left_keys.schema, right_keys.schema)
    both = united_sides(
        _side(left, left_keys), _side(right, right_keys), [field.dataType for field in key_schema.fields], COGROUP
    )
    names = tuple(join_key_column(place) for place in range(len(key_schema.fields)))
    return ProcessorRows(
        KeyColumns(both.inputs, names, key_schema),
        both.watermark,
        both.inputs.schema,
        late_sides_schema(left.schema, right.schema),
        (left.schema, right.schema),
    )


def _check_event_times(rows: StageInput, method: str) -> None:
    if rows.inputs.is_streaming:
        check_one_event_time(rows.inputs.template, method)


def _check_keys(keys: Keys, method: str) -> None:
    if keys.has_session:
        raise invalid_processor(
            f"a session window cannot be a key of {method}: its extent depends on other rows; use agg, or keep"
            " the session in the processor's state"
        )


def _side(rows: StageInput, keys: Keys) -> Side:
    columns = keys.as_columns(rows.inputs)
    return Side(columns.inputs, rows.watermark, rows.schema, tuple(quoted_columns(columns.names)))


def _common_keys(inputs: Inputs, left: StructType, right: StructType) -> StructType:
    """The left side's keys, in types that hold both sides' values."""
    if len(left.fields) != len(right.fields):
        raise invalid_processor(
            f"{COGROUP}: the left side is grouped by {_said(left.fields)}, the right side by {_said(right.fields)};"
            " group both by as many keys"
        )
    found = []
    for place, (mine, theirs) in enumerate(zip(left.fields, right.fields, strict=True), 1):
        data_type = _common_type(inputs, mine, theirs)
        if data_type is None:
            raise invalid_processor(
                f"{COGROUP}: key {place} is {_said([mine])} on the left side and {_said([theirs])} on the right side,"
                " and no type holds the values of both; cast one of them"
            )
        check_key_type(mine.name, data_type)
        found.append(StructField(mine.name, data_type, mine.nullable or theirs.nullable))
    return StructType(found)


def _common_type(inputs: Inputs, one: StructField, other: StructField) -> DataType | None:
    """The type that Spark would give a union of both; never of texts and others, whose values differ in their form."""
    if same_type(one.dataType, other.dataType):
        return one.dataType
    if isinstance(one.dataType, StringType) != isinstance(other.dataType, StringType):
        return None
    mine, theirs = (empty_frame(inputs.spark, StructType([StructField("k", each.dataType)])) for each in (one, other))
    try:
        return mine.union(theirs).schema.fields[0].dataType
    except AnalysisException:
        return None


def _said(fields: Sequence[StructField]) -> str:
    return columns_ddl(fields) or "no key"
