"""``dropna``, ``fillna`` and ``replace``, and the same behind ``na``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ....runtime.catalyst.columns import quoted
from .mapped_rows import MappedRows

if TYPE_CHECKING:
    from typing_extensions import Self

_NO_VALUE: Any = object()
_Rows = TypeVar("_Rows")


class NullFunctions(Generic[_Rows]):
    """The methods of ``frame.na``.

        orders.na.fill(0, ["amount"])

    Args:
        drop: ``dropna``.
        fill: ``fillna``.
        replace: ``replace``.
    """

    def __init__(self, drop: Callable[..., _Rows], fill: Callable[..., _Rows], replace: Callable[..., _Rows]) -> None:
        self.drop, self.fill, self.replace = drop, fill, replace


class NullMethods(MappedRows):
    """Rows with the operations on nulls and on single values."""

    def dropna(
        self, how: str = "any", thresh: int | None = None, subset: str | tuple[str, ...] | list[str] | None = None
    ) -> Self:
        """Removes rows with nulls.

            orders.dropna(subset=["customer"])

        Args:
            how: ``any``: one null is enough; ``all``: all values must be null.
            thresh: rows with fewer values than this are removed; ``how`` then has no effect.
            subset: the columns to check; None: all.

        Raises:
            PlanError: Spark does not accept the arguments, or the inputs would have other columns afterwards.
        """
        columns = self._all_quoted if subset is None else subset
        return self._map("dropna", lambda frame: frame.dropna(how, thresh, columns))

    def fillna(self, value: Any, subset: str | tuple[str, ...] | list[str] | None = None) -> Self:
        """Replaces nulls with a value; as in Spark: ``orders.fillna({"amount": 0, "country": "unknown"})``."""
        return self._map("fillna", lambda frame: frame.fillna(value, subset))

    def replace(self, to_replace: Any, value: Any = _NO_VALUE, subset: str | list[str] | None = None) -> Self:
        """Replaces values; as in Spark.

            orders.replace({"N/A": "unknown"}, subset=["country"])

        Args:
            to_replace: one value, several values, or a dict of old to new values.
            value: the new value, or as many as there are old ones; not with a dict.
            subset: the columns to change; None: all columns of a type that fits.

        Raises:
            PlanError: the inputs would have other columns afterwards.
        """
        given = () if value is _NO_VALUE else (value,)
        columns: Any = self._all_quoted if subset is None else subset
        return self._map("replace", lambda frame: frame.replace(to_replace, *given, subset=columns))

    @property
    def na(self) -> NullFunctions[Self]:
        """``drop``, ``fill`` and ``replace``, as ``DataFrame.na``: ``orders.na.fill(0)``."""
        return NullFunctions(self.dropna, self.fillna, self.replace)

    @property
    def _all_quoted(self) -> list[str]:
        """Names of all columns that users see."""
        return [quoted(name) for name in self.columns]
