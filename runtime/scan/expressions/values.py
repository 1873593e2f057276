"""Expressions over columns of files, as data, and their values for a batch of rows.

An expression is a tree of :class:`Value`.  Each has the name of a function of :data:`FUNCTIONS`, which computes it with
Arrow or numpy.

Invariants:
- A function gives what Spark gives for the same rows, to the bit, or raises :class:`NotTakenError`: then Spark reads.
- What Spark does not compute for a row (the other branch of a condition) raises nothing here either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.gather import gathered, gathered_rows, places_where
from ..parquet_scan import NotTakenError


@dataclass(frozen=True)
class Value:
    """An expression."""

    #: A name in :data:`FUNCTIONS`.
    function: str
    type: pa.DataType
    arguments: tuple[Value, ...] = ()
    #: What else the function needs: a column's name, a constant, a pattern.
    options: tuple[Any, ...] = ()

    @cached_property
    def can_fail(self) -> bool:
        """True if there are rows for which it raises."""
        return FUNCTIONS[self.function].can_fail or any(one.can_fail for one in self.arguments)

    @cached_property
    def functions(self) -> frozenset[str]:
        """All functions that compute it."""
        return frozenset({self.function}).union(*(one.functions for one in self.arguments))

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns of the files that it is made of."""
        if self.function == "column":
            return frozenset(self.options)
        return frozenset[str]().union(*(one.columns for one in self.arguments))


def all_of(conditions: Sequence[Value]) -> Value | None:
    """What is true where all conditions are; None: there are no conditions."""
    return reduce(lambda one, other: Value("and", pa.bool_(), (one, other)), conditions) if conditions else None


@dataclass(frozen=True)
class Function:
    """How values are computed.

    Args:
        compute: gives an array, or a scalar for all rows, of a value and of its arguments as arrays; with ``is_lazy``
            of the batch and the value.
        can_fail: True if it raises for some arguments.
        is_lazy: True if it asks for its arguments itself.
        is_slow: True if it takes so long that rows which a condition lets through are not computed once more.
    """

    compute: Callable[..., Any]
    can_fail: bool = False
    is_lazy: bool = False
    is_slow: bool = False


#: All functions by name; filled by the modules that hold them.
FUNCTIONS: dict[str, Function] = {}


@dataclass
class Batch:
    """Rows, and what has been computed of them.

    Args:
        rows: has the columns of the files; texts may be dictionaries.
    """

    rows: pa.RecordBatch
    _known: dict[Value, pa.Array] = field(default_factory=dict, init=False)

    def of(self, value: Value) -> pa.Array:
        """The values of an expression, one a row.

        Raises:
            NotTakenError: they are not known to be those that Spark has.
        """
        found = self._known.get(value)
        if found is None:
            found = self._of_texts(value)
            if found is None:
                found = self._array(self._computed(value), value)
            self._known[value] = found
        return found

    def _of_texts(self, value: Value) -> pa.Array | None:
        """The values of an expression of one column that is a dictionary, computed once for each text; None: it is not.

        What fails for a text of the dictionary is computed row by row: the text need not be in these rows.
        """
        column = None if value.function == "column" else self._dictionary(value)
        found = None if column is None else self._of_dictionary(value, column)
        return None if column is None or found is None else found.take(_places(column))

    def _dictionary(self, value: Value) -> pa.DictionaryArray | None:
        """The one column that an expression is of, if that is a dictionary with few texts."""
        if len(value.columns) != 1:
            return None
        column = self.rows.column(*value.columns)
        is_small = pa.types.is_dictionary(column.type) and 2 * len(column.dictionary) <= len(column)
        return column if is_small else None

    def _of_dictionary(self, value: Value, column: pa.DictionaryArray) -> pa.Array | None:
        """The values of an expression for each text of a dictionary, and for null; None: it fails for one of them."""
        texts = pa.concat_arrays([column.dictionary, pa.nulls(1, column.type.value_type)])
        try:
            return Batch(pa.RecordBatch.from_arrays([texts], names=list(value.columns))).of(value)
        except NotTakenError:
            return None

    def texts(self, value: Value) -> pa.Array:
        """The values of an expression of texts, as a dictionary where there are few different ones.

        Raises:
            NotTakenError: as of :meth:`of`.
        """
        column = self._dictionary(value)
        found = None if column is None else self._of_dictionary(value, column)
        if column is None or found is None:
            return self.of(value)
        encoded = found.dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.take(_places(column)), encoded.dictionary)

    def filtered(self, condition: Value, columns: list[str]) -> Batch:
        """The rows for which a condition is true, with what is slow to compute, if the condition has asked for it.

        Args:
            condition: of type boolean.
            columns: the names of the columns that are wanted.
        """
        mask = self.of(condition)
        if not columns:  # a batch without columns has no rows
            columns = self.rows.schema.names[:1]
        rows, slow = self.rows.select(columns), {v: a for v, a in self._known.items() if FUNCTIONS[v.function].is_slow}
        if mask.null_count or mask.true_count < len(mask):
            places = places_where(mask)
            rows, slow = gathered_rows(rows, places), {value: gathered(array, places) for value, array in slow.items()}
        found = Batch(rows)
        found._known |= slow
        return found

    def where(self, value: Value, mask: pa.Array) -> pa.Array:
        """The values of an expression in those rows for which ``mask`` is true; anything elsewhere."""
        if value.function == "constant" or not value.can_fail or value in self._known:
            return self.of(value)
        places = places_where(mask)
        if len(places) == self.rows.num_rows:
            return self.of(value)
        some = Batch(gathered_rows(self.rows, places)).of(value)
        back = np.zeros(self.rows.num_rows, dtype=np.int64)
        back[places.to_numpy()] = np.arange(len(places))
        return some.take(pa.array(back)) if len(places) else pa.nulls(self.rows.num_rows, value.type)

    def _computed(self, value: Value) -> Any:
        function = FUNCTIONS[value.function]
        if function.is_lazy:
            return function.compute(self, value)
        arguments = [
            pa.scalar(one.options[0], one.type) if one.function == "constant" else self.of(one)
            for one in value.arguments
        ]
        try:
            return function.compute(value, *arguments)
        except pa.ArrowInvalid as error:
            raise NotTakenError(f"{value.function}: {str(error).splitlines()[0]}") from error

    def _array(self, found: Any, value: Value) -> pa.Array:
        if isinstance(found, pa.Scalar):
            found = pa.repeat(found, self.rows.num_rows)
        elif isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
            found = pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
        if len(found) != self.rows.num_rows:
            raise NotTakenError(f"Arrow has {len(found)} values of {value.function} for {self.rows.num_rows} rows")
        return found if found.type == value.type else found.cast(value.type)


def _places(column: pa.DictionaryArray) -> pa.Array:
    """Where the values of a dictionary are in it; of nulls behind its end."""
    return column.indices.fill_null(len(column.dictionary))


def filtered(rows: pa.RecordBatch, condition: Value, columns: list[str]) -> pa.RecordBatch:
    """Columns of the rows for which a condition is true.

    Args:
        rows: the rows.
        condition: of type boolean.
        columns: the names of the columns.
    """
    return Batch(rows).filtered(condition, columns).rows


# -- columns, constants and logic ------------------------------------------------------------------------------------


def _column(batch: Batch, value: Value) -> pa.Array:
    found = batch.rows.column(value.options[0])
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _constant(batch: Batch, value: Value) -> pa.Scalar:
    return pa.scalar(value.options[0], value.type)


def _and(batch: Batch, value: Value) -> pa.Array:
    one, other = value.arguments
    left = batch.of(one)
    return pc.and_kleene(left, batch.where(other, pc.fill_null(left, True)))


def _or(batch: Batch, value: Value) -> pa.Array:
    one, other = value.arguments
    left = batch.of(one)
    return pc.or_kleene(left, batch.where(other, pc.invert(pc.fill_null(left, False))))


def _case(batch: Batch, value: Value) -> pa.Array:
    """``condition, then, condition, then, …, otherwise``."""
    *pairs, otherwise = value.arguments
    left = pa.repeat(pa.scalar(True), batch.rows.num_rows)
    chosen: list[tuple[pa.Array, pa.Array]] = []
    for condition, then in zip(pairs[::2], pairs[1::2], strict=True):
        holds = pc.and_(left, pc.fill_null(batch.where(condition, left), False))
        chosen.append((holds, batch.where(then, holds)))
        left = pc.and_not(left, holds)
    found = batch.where(otherwise, left)
    for holds, then in reversed(chosen):
        found = pc.if_else(holds, then, found)
    return found


def _coalesce(batch: Batch, value: Value) -> pa.Array:
    first, *others = value.arguments
    found = batch.of(first)
    for other in others:
        if not found.null_count:
            break
        missing = found.is_null()
        found = pc.if_else(missing, batch.where(other, missing), found)
    return found


FUNCTIONS |= {
    "column": Function(_column, is_lazy=True),
    "constant": Function(_constant, is_lazy=True),
    "and": Function(_and, is_lazy=True),
    "or": Function(_or, is_lazy=True),
    "case": Function(_case, is_lazy=True),
    "coalesce": Function(_coalesce, is_lazy=True),
    "not": Function(lambda value, one: pc.invert(one)),
    "is_null": Function(lambda value, one: one.is_null()),
    "is_valid": Function(lambda value, one: one.is_valid()),
}
