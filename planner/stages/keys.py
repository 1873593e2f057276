"""Keys of the keyed stage: what groupBy was given, as columns that both inputs really have.

The runtime shuffles and sorts by columns, so a key that is an expression, or that holds floats (equal keys may differ
in bits: -0.0 and 0.0, the many NaNs), becomes a column ``__key_<n>``.  The processor's rows keep the original columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ...errors import PlanError
from ...runtime.catalyst.columns import holds_floats, normalise_floats
from ...runtime.jvm.spark_errors import error_text
from ..inputs.analysis import plain_columns
from ..inputs.event_time import SESSION_MARK, without_carrier
from ..inputs.inputs import Inputs
from ..inputs.schemas import (
    bare_name,
    check_key_type,
    find_column,
    is_path,
    missing_column,
    quoted_columns,
)

_KEY_PREFIX = "__key_"


@dataclass(frozen=True)
class KeyColumns:
    """Inputs whose keys are columns."""

    inputs: Inputs
    #: The key columns by name, in order.
    names: tuple[str, ...]
    #: Their types, under the labels that the user knows.
    schema: StructType


@dataclass(frozen=True)
class Keys:
    """The grouping of a keyed stage."""

    #: What was given to groupBy, for the aggregate planner: names and expressions.
    given: tuple[Column | str, ...]
    #: One field per key: Spark's name of the expression, and its type.
    schema: StructType
    #: The input's column that a key is; None: it is computed.
    plain: tuple[str | None, ...]
    #: True if one of the keys is a session window, whose extent depends on other rows.
    has_session: bool

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.schema.fieldNames())

    def as_columns(self, inputs: Inputs) -> KeyColumns:
        """The inputs with a real column for each key."""
        names: list[str] = []
        added: dict[int, Column] = {}
        for index, (column, field) in enumerate(zip(self.plain, self.schema.fields, strict=True)):
            if column is not None and not holds_floats(field.dataType):
                names.append(column)
                continue
            names.append(f"{_KEY_PREFIX}{index}")
            given = self.given[index]
            added[index] = F.col(given) if isinstance(given, str) else given
        if not added:
            return KeyColumns(inputs, tuple(names), self.schema)
        # First the expressions, then the floats of their values: a window must be the projected expression itself.
        computed = inputs.map(
            "groupBy", lambda frame: frame.select("*", *[column.alias(names[index]) for index, column in added.items()])
        )
        floats = {
            names[index]: normalise_floats(F.col(names[index]), self.schema.fields[index].dataType)
            for index in added
            if holds_floats(self.schema.fields[index].dataType)
        }
        keyed = computed.map("groupBy", lambda frame: frame.withColumns(floats)) if floats else computed
        types = {field.name: field for field in keyed.schema.fields}
        schema = StructType(
            [
                StructField(label, types[name].dataType, types[name].nullable)
                for label, name in zip(self.labels, names, strict=True)
            ]
        )
        return KeyColumns(keyed, tuple(names), schema)


def given_keys(inputs: Inputs, cols: Sequence[Any], what: str = "groupBy") -> tuple[Column | str, ...]:
    """Checked grouping columns; names stay as the user writes them, as in Spark, and ordinals become names.

    Args:
        inputs: what is grouped.
        cols: names, columns and ordinals.
        what: the method that was given them.

    Raises:
        PlanError: it is none of these, or is not there.
    """
    return tuple(_given(inputs, col, what) for col in cols)


def resolve_keys(inputs: Inputs, cols: Sequence[Column | str | int], what: str = "groupBy") -> Keys:
    """What ``groupBy(*cols)`` means on these inputs.

    Args:
        inputs: what is grouped.
        cols: names, columns and ordinals.
        what: the method that was given them.

    Raises:
        PlanError: a column is missing, an expression does not fit, or a type cannot be a key.
    """
    given = given_keys(inputs, cols, what)
    if not given:
        return Keys((), StructType([]), (), False)
    template = inputs.template
    columns = [F.col(col) if isinstance(col, str) else col for col in given]
    try:
        grouped = template.groupBy(*columns).count()
        fields: list[StructField] = grouped.schema.fields[:-1]
        plain = plain_columns(template, columns, grouped)
    except AnalysisException as error:
        raise PlanError(f"{what}: {error_text(error)}") from error
    for field in fields:
        check_key_type(field.name, field.dataType)
    names = [field.name for field in fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise PlanError(f"{what} has several keys named {', '.join(repeated)}; give each a name with .alias(…)")
    has_session = any(SESSION_MARK in (field.metadata or {}) for field in fields)
    return Keys(given, StructType(fields), tuple(plain), has_session)


def _given(inputs: Inputs, col: Any, what: str) -> Column | str:
    schema = without_carrier(inputs.schema)
    if isinstance(col, bool) or not isinstance(col, (Column, str, int)):
        raise PlanError(f"{what} takes names, columns and ordinals, got {col!r} ({type(col).__name__})")
    if isinstance(col, int):
        if not 1 <= col <= len(schema.fields):
            raise PlanError(f"{what} ordinal {col} is out of range; the columns are 1 to {len(schema.fields)}")
        return quoted_columns([schema.fieldNames()[col - 1]])[0]
    if isinstance(col, Column) or is_path(col, schema, case_sensitive=inputs.case_sensitive):
        return col
    found = find_column(col, schema, case_sensitive=inputs.case_sensitive)
    if found is not None:
        return quoted_columns([bare_name(col)])[0]
    if "." not in col:
        raise missing_column("key column", col, schema)
    return col
