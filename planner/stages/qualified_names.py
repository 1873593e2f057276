"""Rows whose columns are called by the names of frames, or several by one name, as rows with a name for each column.

Behind a join there may be two columns ``ts``, called ``left.ts`` and ``right.ts``, or taken from the frames that were
joined.  A keyed stage computes keys and aggregates anew in each epoch, by names: here every column gets a name of its
own, and what a user gives is said with those, under the names that Spark gives to the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ...errors import PlanError
from ...runtime.catalyst.columns import column_fold
from ...runtime.catalyst.frame_columns import hidden_columns, with_names
from ...runtime.catalyst.spark_expressions import as_column, attribute_id, items
from ...runtime.catalyst.spark_joins import qualifier_of
from ...runtime.catalyst.spark_plans import analyzed
from ...runtime.catalyst.struct_fields import known_again, own_fields
from ...runtime.jvm.spark_errors import error_text
from ..inputs.event_time import CARRIER
from ..inputs.inputs import Inputs
from ..inputs.schemas import check_distinct_columns, quoted_columns
from .stage import WRITTEN, StageInput, presented_as


@dataclass(frozen=True)
class QualifiedNames:
    """Rows of a stage with a name for each column."""

    rows: StageInput
    #: The same as users know them.
    known: StageInput
    #: The own name of each column, by the ids of their attributes; None: users call them by these alone.
    names: dict[int, str] | None

    @classmethod
    def of(cls, rows: StageInput, what: str) -> QualifiedNames:
        """The rows for a keyed stage.

        Args:
            rows: as users know them.
            what: the method that was called.

        Raises:
            PlanError: several columns have the name of the event time.
        """
        template = rows.inputs.template
        plan, given = analyzed(template), template.columns
        attributes, hidden = list(items(plan.output())), hidden_columns(plan)
        qualifiers = list(map(qualifier_of, [*attributes, *hidden]))
        fold = column_fold(rows.inputs.spark)
        names = _distinct(given, [str(one.name()) for one in hidden], qualifiers, fold)
        # Users may take a static frame's columns from that frame (``customers["segment"]``): those are called by ids.
        if names == given and not any(qualifiers) and not rows.inputs.static_ids:
            return cls(rows, rows, None)
        ids = [attribute_id(one) for one in [*attributes, *hidden]]
        known = dict(zip(ids, names, strict=True))
        if names == given:
            return cls(rows, rows, known)
        if rows.watermark is not None and rows.watermark.event_time not in names:
            check_distinct_columns(f"what {what} is called on", rows.schema, case_sensitive=rows.inputs.case_sensitive)

        def named(frame: DataFrame, *more: Column) -> DataFrame:
            # Those of this very frame: behind a USING join to a static frame each input's keys are hidden ones.
            own_hidden = (
                [as_column(rows.inputs.spark, one) for one in hidden_columns(analyzed(frame))] if hidden else []
            )
            whole = frame.select("*", *own_hidden, *more) if own_hidden or more else frame
            return whole.toDF(*names, *whole.columns[len(names) :])

        own = [name for name, before in zip(names, given, strict=False) if before != CARRIER]
        schema = StructType(
            [
                StructField(name, field.dataType, field.nullable, field.metadata)
                for name, field in zip(own, rows.schema.fields, strict=True)
            ]
        )
        inputs = rows.inputs.map(what, named, named)
        return cls(replace(rows, inputs=inputs, schema=schema), rows, known)

    def check_distinct(self, what: str) -> None:
        """Raise PlanError if users have several columns of one name; ``what``: the method that was called."""
        case_sensitive = self.known.inputs.case_sensitive
        check_distinct_columns(f"what {what} is called on", self.known.schema, case_sensitive=case_sensitive)

    def keys(self, cols: Sequence[Any], what: str) -> list[Any]:
        """What ``groupBy`` was given; errors of it are left to who reads it.

        Args:
            cols: names, columns and ordinals.
            what: the method.

        Raises:
            PlanError: several columns have a name.
        """
        return [self._key(col, what) for col in cols]

    def _key(self, col: Any, what: str) -> Any:
        if self.names is None or isinstance(col, bool):
            return col
        if isinstance(col, int):
            if not 1 <= col <= len(self.rows.schema.fields):
                return col
            own, name = self.rows.schema.names[col - 1], self.known.schema.names[col - 1]
            return col if own == name else quoted_columns([own])[0].alias(name)
        if not isinstance(col, (Column, str)):
            return col
        column = F.col(col) if isinstance(col, str) else col
        said = self._said(column, what)
        if said is column:
            return col

        def shown(frame: DataFrame, key: Column) -> str:
            return frame.groupBy(key).count().columns[0]

        return self._called(column, said, shown)

    def aggregates(self, exprs: Any) -> Any:
        """What ``agg`` was given: columns, or a dict of columns' names to functions.

        Raises:
            PlanError: several columns have a name.
        """
        if self.names is None:
            return exprs
        if isinstance(exprs, dict):
            if set(exprs) <= {"*", *self.rows.schema.names}:
                return exprs
            exprs = [F.call_function(function, F.col(name)) for name, function in exprs.items()]

        def shown(frame: DataFrame, expression: Column) -> str:
            return frame.agg(expression).columns[0]

        found = []
        for expression in exprs:
            said = self._said(expression, "agg")
            found.append(said if said is expression else self._called(expression, said, shown))
        return found

    def _said(self, column: Column, what: str) -> Column:
        """A column with own names; the same one if it has them."""
        assert self.names is not None
        try:
            return with_names(self.known.inputs.template, column, self.names)
        except AnalysisException as error:
            raise PlanError(f"{what}: {error_text(error)}; {HOW_TO_TELL}") from error

    def _called(self, given: Column, said: Column, shown: Callable[[DataFrame, Column], str]) -> Column:
        """A column with own names under the name that Spark gives to it as it was given."""
        try:
            name, own = shown(self.known.inputs.template, given), shown(self.rows.inputs.template, said)
        except AnalysisException:
            return said  # who takes it says what is wrong with it
        return said if name == own else said.alias(name)


#: What to write where several columns have one name.
HOW_TO_TELL = (
    "behind a join of two streams columns of one name are told by their frames: a['<name>'] and b['<name>'], or"
    " a.alias('a').join(b.alias('b'), …), then F.col('a.<name>') and F.col('b.<name>')"
)


def with_names_apart(output: Inputs) -> tuple[Inputs, StructType | None]:
    """What goes to a sink, with a name for each column and each field: files cannot have two of one name.

    Returns:
        The output, and the columns as users know them; None: they are the same.
    """
    schema, fold = output.template.schema, column_fold(output.spark)
    names = _distinct(schema.names, [], [()] * len(schema.names), fold)
    types = [own_fields(field.dataType, fold) for field in schema.fields]
    if names == schema.names and all(new is field.dataType for new, field in zip(types, schema.fields, strict=True)):
        return output, None
    own = [StructField(name, data_type) for name, data_type in zip(names, types, strict=True)]
    named = presented_as(own)
    parts = tuple(part.mapped(WRITTEN, named, named) for part in output.parts)
    return replace(output, parts=parts), known_again(schema, own)


def _distinct(
    names: Sequence[str], hidden: Sequence[str], qualifiers: Sequence[tuple[str, ...]], fold: Callable[[str], str]
) -> list[str]:
    """The names, and others for those that are there twice, and for hidden ones."""
    counts = Counter(map(fold, names))
    taken = set(counts)
    found = []
    for place, (name, qualifier) in enumerate(zip([*names, *hidden], qualifiers, strict=True)):
        own = name
        if place >= len(names) or counts[fold(name)] > 1:
            stem, number = "_".join([*qualifier[-1:], name]), 1
            own = stem
            while fold(own) in taken:
                number += 1
                own = f"{stem}_{number}"
            taken.add(fold(own))
        found.append(own)
    return found
