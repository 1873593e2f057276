"""Maps columns of the joined frames to columns of the join: ``a["k"]`` and ``b["k"]`` behind it.

As in Spark a column that was taken from a frame is that of the frame's side, wherever it is in the result: beside
another of its name, or, behind a USING join, hidden by the one that stands for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....errors import PlanError
from ....runtime.catalyst.spark_expressions import attribute_id, is_attribute
from ....runtime.catalyst.spark_plans import output_of
from ....runtime.operators.join.columns import LEFT, RIGHT, SIDE_NAMES
from ...inputs.schemas import find_column
from ..stage import SideColumns, StageInput, side_columns_of


@dataclass(frozen=True)
class JoinedColumns:
    """Both sides of a join, and which columns were taken from the frames that they are made of."""

    rows: tuple[StageInput, StageInput]

    def place(self, number: int, name: str) -> tuple[int, int] | None:
        """The side of a column that was taken from a frame, and its place there; None: the frame is in neither.

        Args:
            number: of the frame.
            name: of the column.

        Raises:
            PlanError: the frame is in both sides, or its column is in none any more.
        """
        found = [
            (side, place)
            for side in (LEFT, RIGHT)
            if (place := self._place_in(self.rows[side], number, name)) is not None
        ]
        if len(found) > 1:
            raise PlanError(
                f"column {name} was taken from a frame that both sides are made of; give the sides names,"
                " a.alias('a') and b.alias('b'), and write 'a.<name>' and 'b.<name>'",
                code="MIXEDMODE_COLUMN_AMBIGUOUS",
            )
        return found[0] if found else None

    def _place_in(self, rows: StageInput, number: int, name: str) -> int | None:
        if number in rows.inputs.ids:
            return self._by_name(rows, name)
        earlier: SideColumns | None = side_columns_of(rows.inputs)
        column = None if earlier is None else earlier.find(number, name)
        if column is None:
            return None
        if not is_attribute(column):
            return self._by_name(rows, str(column.name()))
        ids = [attribute_id(one) for one in output_of(rows.inputs.template)]
        if attribute_id(column) not in ids:
            raise not_there("", name)
        return ids.index(attribute_id(column))

    def _by_name(self, rows: StageInput, name: str) -> int:
        found = find_column(name, rows.schema, case_sensitive=rows.inputs.case_sensitive)
        if found is None:
            raise not_there("", name)
        return rows.schema.names.index(found)


@dataclass(frozen=True)
class ColumnsOfSides:
    """The columns of what a join gives, by side and place; attributes, or names that are not resolved."""

    sides: JoinedColumns
    shown: Mapping[tuple[int, int], Any] = field(default_factory=dict)

    def find(self, number: int, name: str) -> Any:
        """The column that was taken from a frame; None: it is none of those that were joined.

        Args:
            number: of the frame.
            name: of the column.

        Raises:
            PlanError: the join does not hand it on, or both sides are made of the frame.
        """
        at = self.sides.place(number, name)
        if at is None:
            return None
        if at not in self.shown:
            raise PlanError(
                f"column {name} was taken from the {SIDE_NAMES[at[0]]} side of a join, which does not hand it on"
            )
        return self.shown[at]


def not_there(what: str, name: str) -> PlanError:
    """The error for a column of a frame that has been left out, or replaced, since.

    Args:
        what: where it was asked for.
        name: of the column.
    """
    return PlanError(
        f"{what}column {name} was taken from a frame, and is not among the columns any more; keep it, or take it from"
        " the frame as it is now",
        code="MIXEDMODE_COLUMN_NOT_FOUND",
    )
