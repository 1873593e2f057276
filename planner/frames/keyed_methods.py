"""Operations of ``DataFrame`` that make a keyed stage: grouping by key, and dropping duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column

from ...runtime.catalyst.star_columns import starred
from ..stages.aggregates.grouped import grouping_of
from ..stages.dedup import Method, plan_dedup
from ..stages.keys import resolve_keys
from ..stages.qualified_names import QualifiedNames
from .grouped import MixedGroupedData
from .joining import JoiningFrame
from .stateless.mapped_rows import ColumnOrName

if TYPE_CHECKING:
    from typing_extensions import Self


class KeyedMethods(JoiningFrame):
    """Rows that can be given to a keyed stage."""

    def groupBy(self, *cols: ColumnOrName | int | Sequence[ColumnOrName | int]) -> MixedGroupedData[Self]:
        """Groups by key: names, columns, expressions, ``F.window``, ``F.session_window``, or 1-based positions.

            orders.groupBy("customer", F.window("ts", "1 day")).agg(F.sum("amount"))

        Raises:
            PlanError: a key is missing or has a type without an order, or the watermarked column is gone.
        """
        return self._grouped("groupBy", cols)

    groupby = groupBy

    def rollup(self, *cols: ColumnOrName | int | Sequence[ColumnOrName | int]) -> MixedGroupedData[Self]:
        """Groups by all keys, by all but the last, and so on, down to one group of all rows; for :meth:`agg`.

            orders.rollup("country", "customer").agg(F.sum("amount"))

        Raises:
            PlanError: as :meth:`groupBy`; or there is no key, or one is a session window.
        """
        return self._grouped("rollup", cols)

    def cube(self, *cols: ColumnOrName | int | Sequence[ColumnOrName | int]) -> MixedGroupedData[Self]:
        """Groups by every combination of the keys; errors as of :meth:`rollup`.

        Example: ``orders.cube("country", "customer").agg(F.sum("amount"))``
        """
        return self._grouped("cube", cols)

    def groupingSets(
        self, groupingSets: Sequence[Sequence[ColumnOrName | int]], *cols: ColumnOrName | int
    ) -> MixedGroupedData[Self]:
        """Groups by each of the given sets of keys; errors as of :meth:`rollup`, or a set has other columns.

        Example: ``orders.groupingSets([["country"], ["customer"]], "country", "customer").agg(F.sum("amount"))``
        """
        return self._grouped("groupingSets", cols, groupingSets)

    def _grouped(self, what: str, cols: Sequence[Any], sets: Any = None) -> MixedGroupedData[Self]:
        own = QualifiedNames.of(self._stage_input(what), what)
        columns = starred(self._own_here(cols[0] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols))
        given = own.keys(columns(own.known.inputs.template), what)
        rows = own.rows
        keys = resolve_keys(rows.inputs, given, what)
        is_plain = what == "groupBy" or (sets is None and not given)
        if isinstance(sets, (list, tuple)):
            sets = [own.keys(self._own_here(each), what) if isinstance(each, (list, tuple)) else each for each in sets]
        grouping = None if is_plain else grouping_of(what, rows.inputs, keys, sets)
        return MixedGroupedData(own, keys, self._of, self._own_here, grouping)

    def agg(self, *exprs: Column | dict[str, str]) -> Any:
        """Aggregates all rows as one group, as ``groupBy().agg(…)``: ``orders.agg(F.sum("amount").alias("spent"))``."""
        return self.groupBy().agg(*exprs)

    def dropDuplicates(self, subset: list[str] | tuple[str, ...] | None = None) -> Self:
        """Drops rows whose values in these columns (None: in all) have occurred before.

            orders.dropDuplicates(["id", "ts"])

        Of the rows of a backlog or a micro-batch, the one with the least event time stays; of several such rows the
        first, in the order of files and of their rows.  If the watermark's column, or a window of it, is among the
        columns, keys that the watermark has passed are forgotten; otherwise every key is remembered for ever.

        Raises:
            PlanError: a column is missing, or its values cannot be compared.
        """
        return self._deduplicated(subset, "dropDuplicates")

    drop_duplicates = dropDuplicates

    def distinct(self) -> Self:
        """Drops rows that have occurred before: :meth:`dropDuplicates` by all columns: ``orders.distinct()``."""
        return self._deduplicated(None, "distinct")

    def dropDuplicatesWithinWatermark(self, subset: list[str] | tuple[str, ...] | None = None) -> Self:
        """Drops rows whose values in these columns have occurred before, within the watermark's delay.

            orders.dropDuplicatesWithinWatermark(["id"])

        Args:
            subset: the columns; None: all.

        Raises:
            PlanError: as :meth:`dropDuplicates`, or there is no watermark.
        """
        return self._deduplicated(subset, "dropDuplicatesWithinWatermark")

    def _deduplicated(self, subset: Any, method: Method) -> Self:
        return self._of(plan_dedup(self._stage_input(method), subset, method))
