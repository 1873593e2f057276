"""Columns of a history: those of the live input, taken by name; a table often has more of them than a stream."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from ...errors import PlanError
from ...runtime.catalyst.columns import column_fold, columns_ddl, quoted
from .schemas import quoted_columns, same_type

logger = logging.getLogger(__name__)


def with_columns_of(live: DataFrame, history: DataFrame) -> DataFrame:
    """The history with the columns of the live input only, under its names, in the history's order.

    Args:
        live: the live input.
        history: the history; a column of a partition or of ingestion that the stream lacks is left out.

    Raises:
        PlanError: the history lacks a column, or has one with another type.
    """
    fold = column_fold(history.sparkSession)
    theirs = {fold(field.name): field for field in live.schema.fields}
    taken = [field for field in history.schema.fields if fold(field.name) in theirs]
    if len({fold(field.name) for field in taken}) < len(taken) or len(theirs) < len(live.columns):
        return history  # who checks each of the two says which name is there twice
    mine = {fold(field.name): field for field in taken}
    missing = [field.name for name, field in theirs.items() if name not in mine]
    others = [
        f"{field.name} is {mine[name].dataType.simpleString()} in history and {field.dataType.simpleString()} in live"
        for name, field in theirs.items()
        if name in mine and not same_type(field.dataType, mine[name].dataType)
    ]
    if missing or others:
        problems = [f"history lacks {', '.join(missing)}"] if missing else []
        raise PlanError(
            f"history and live have different columns: {'; '.join([*problems, *others])}\n"
            f"history has {columns_ddl(history.schema.fields)}\n"
            f"live has {columns_ddl(live.schema.fields)}\n"
            f"give read() the history as {_select(mine, live.schema, fold)}",
            code="MIXEDMODE_SCHEMAS_DIFFER",
        )
    if len(taken) < len(history.columns):
        extra = [field.name for field in history.schema.fields if field not in taken]
        logger.warning(
            "history has columns that live lacks; they are left out: %s. If the job needs them, add them to live", extra
        )
    names = [theirs[fold(field.name)].name for field in taken]
    if names == history.columns:
        return history
    columns = quoted_columns([field.name for field in taken])
    return history.select(*[column.alias(name) for column, name in zip(columns, names, strict=True)])


def _select(mine: dict[str, StructField], live: StructType, fold: Callable[[str], str]) -> str:
    """The call that gives the history the columns of the live input, as far as names and types say it."""
    columns = []
    for field in live.fields:
        kind = field.dataType.simpleString()
        own = mine.get(fold(field.name))
        if own is None:
            columns.append(f"F.lit(None).cast({kind!r}).alias({field.name!r})")
        elif same_type(own.dataType, field.dataType):
            columns.append(repr(_written(own.name)))
        else:
            columns.append(f"F.col({_written(own.name)!r}).cast({kind!r})")
    return f"history.select({', '.join(columns)})"


def _written(name: str) -> str:
    """A column's name as a call takes it: a dot in it would ask for a field of a struct."""
    return quoted(name) if "." in name or "`" in name else name
