"""Partial aggregates of rows of which few have the same key: sorted once, by numpy, faster than any table of hashes.

Values are kept as what is compared and added, numbers most of them, until they are sorted, so that each column is
moved once.  Where hardly any two rows have the same key, only key groups are sorted, and each row is a partial
aggregate of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.gather import gathered
from ....state.keys.key_hash import key_groups
from ...operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ...scan.partial_calls import PartialCall, Sums, comparable, is_whole_number, refuse_negative_zeros, restored
from ...scan.segments import merged_segments
from ...support.arrow_columns import typed, unchunked
from .key_order import can_be_ordered, key_order, order_of_groups
from .key_repetition import WORTH_REDUCING, rows_per_key, sampled

_LONG = 1 << 63
#: What it takes for each row besides its values: numbers to sort by or of groups, places, and copies of both.
_BYTES_TO_GROUP = 64
#: Texts that rows are told by their numbers of, at most.
_MOST_TEXTS = 1 << 15
#: Values in the form in which a call compares or adds them: the column, and the form.
_Form = tuple[str, str]


@dataclass
class RowsToSort:
    """Rows that wait to be sorted.

    Args:
        schema: of the partial aggregates, key group first.
        keys: the key columns.
        group_columns: those of them that decide the key group.
        calls: the partial aggregates.
        max_parallelism: number of key groups.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    group_columns: tuple[str, ...]
    calls: Sequence[PartialCall]
    max_parallelism: int
    #: True if the first rows say that hardly any two have the same key: then each stays a row of its own.
    are_alone: bool = False
    _keys: list[list[pa.Array]] = field(default_factory=list, init=False)
    _values: list[dict[_Form, pa.Array]] = field(default_factory=list, init=False)
    #: By sum of decimals the greatest absolute value that any part of it can have.
    _bounds: dict[str, int] = field(default_factory=dict, init=False)
    #: Of values that are numbers of texts: the texts.
    _texts: dict[_Form, pa.Array] = field(default_factory=dict, init=False)
    #: Bytes of what waits.
    size: int = field(default=0, init=False)
    #: Rows that wait.
    rows: int = field(default=0, init=False)

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes to sort what waits."""
        return memory_to_group(self.rows, self.size)

    @staticmethod
    def takes(schema: pa.Schema, keys: Sequence[str]) -> bool:
        """Whether rows with such keys can be sorted here."""
        return all(can_be_ordered(schema.field(name).type) for name in keys)

    def add(self, table: pa.Table, sums: Sums) -> bool:
        """Take some rows; False: they have to be aggregated in another way.

        Args:
            table: the rows.
            sums: is told how far sums can go.

        Raises:
            NotTakenError: a sum may leave its type.
        """
        values: dict[_Form, pa.Array] = {}
        for call in self.calls:
            if call.column is None or call.function == "count":
                continue
            form = _form(call, table.schema.field(call.column).type)
            if form[1] == "double" and not call.is_rounded:
                refuse_negative_zeros(table[call.column], call.column)
            if form not in values:
                found = _form_of(call, table[call.column])
                if pa.types.is_decimal(found.type):
                    return False  # more than 64 bits
                values[form] = self._numbered(form, found)
        for call in self.calls:
            # Values of any other form are null where they are.
            if call.function == "count" and not any(column == call.column for column, _ in values):
                values[str(call.column), "count"] = unchunked(table[str(call.column)].is_valid())
        if not self._adds_up(values, table):
            return False
        for call in self.calls:
            if call.column is not None:
                sums.note(call, table[call.column])
        keys = [typed(unchunked(table[name]), self.schema.field(name).type) for name in self.keys]
        self._keys.append(keys)
        self._values.append(values)
        self.size += sum(column.nbytes for column in (*keys, *values.values()))
        self.size += sum(_bytes_of(texts, values[form]) for form, texts in self._texts.items())  # they become texts
        self.rows += len(table)
        return True

    def waiting_keys(self, per_key: float) -> float:
        """About how many keys wait, if so many rows have the same one."""
        return self.rows / per_key

    def _numbered(self, form: _Form, found: pa.Array) -> pa.Array:
        """Texts that come as a dictionary as their numbers among all so far, if those are few; others as they are."""
        if not pa.types.is_dictionary(found.type):
            self._spell_out(form)
            return found
        if self._values and form not in self._texts:  # those before are texts
            return found.dictionary_decode()
        known = self._texts.get(form, pa.array([], found.type.value_type))
        new = found.dictionary.filter(pc.invert(pc.is_in(found.dictionary, known))).unique()
        if len(known) + len(new) > _MOST_TEXTS:
            self._spell_out(form)
            return found.dictionary_decode()
        self._texts[form] = known = pa.concat_arrays([known, new])
        return pc.index_in(found.dictionary, known).take(found.indices)

    def _spell_out(self, form: _Form) -> None:
        """Texts instead of their numbers."""
        texts = self._texts.pop(form, None)
        if texts is not None:
            for chunk in self._values:
                chunk[form] = texts.take(chunk[form])

    def _adds_up(self, values: dict[_Form, pa.Array], table: pa.Table) -> bool:
        """Whether all sums of decimals can be had in 64 bits; of whole numbers ``sums`` knows."""
        bounds = {}
        for call in self.calls:
            if call.function == "sum" and pa.types.is_decimal(call.type):
                extremes = pc.min_max(values[_form(call, table.schema.field(str(call.column)).type)])
                greatest = max(abs(extremes[side].as_py() or 0) for side in ("min", "max"))
                bounds[call.name] = self._bounds.get(call.name, 0) + greatest * len(table)
        if any(bound >= _LONG for bound in bounds.values()):
            return False
        self._bounds |= bounds
        return True

    def taken(self) -> pa.RecordBatch:
        """The partial aggregates of all rows, in the order of key groups; none wait afterwards."""
        keys = dict(zip(self.keys, map(pa.concat_arrays, zip(*self._keys, strict=True)), strict=True))
        values = {form: pa.concat_arrays([chunk[form] for chunk in self._values]) for form in self._values[0]}
        texts = {}
        for texts_form, different in self._texts.items():
            texts[texts_form] = different.take(pc.array_sort_indices(different))
            # Numbers in the order of the texts.
            values[texts_form] = pc.index_in(different, texts[texts_form]).take(values[texts_form])
        self._keys, self._values, self._bounds, self._texts, self.size, self.rows = [], [], {}, {}, 0, 0
        rows = len(keys[self.keys[0]])
        groups = pa.array(key_groups([keys[name] for name in self.group_columns], self.max_parallelism, rows))
        if self.are_alone and rows_per_key(*sampled(pa.table(keys), self.keys), rows) < WORTH_REDUCING:
            return self._by_group(groups, keys, {**values, **{form: texts[form].take(values[form]) for form in texts}})
        order = key_order(pa.RecordBatch.from_arrays([groups, *keys.values()], [KEY_GROUP_COLUMN, *keys]), self.keys)
        starts = order.starts
        places, firsts = pa.array(order.places), pa.array(order.places[starts])
        arrays = {name: gathered(column, firsts) for name, column in {KEY_GROUP_COLUMN: groups, **keys}.items()}
        ordered: dict[_Form, pa.Array] = {}
        counts = pa.array(np.diff(np.append(starts, rows)))
        for call in self.calls:
            form = None if call.column is None else _known_form(call, values)
            if form is None or (call.function == "count" and _are_all_there(values[form])):
                arrays[call.name] = counts
                continue
            if form not in ordered:
                ordered[form] = gathered(values[form], places)
            its = _ones(ordered[form]) if call.function == "count" else ordered[form]
            found = merged_segments(its, call, starts)
            assert found is not None, "sums have been looked at"
            spelled = texts[form].take(found) if form in texts and call.function != "count" else found
            arrays[call.name] = restored(call, spelled)
        return self._batch(arrays)

    def _by_group(self, groups: pa.Array, keys: dict[str, pa.Array], values: dict[_Form, pa.Array]) -> pa.RecordBatch:
        """Each row as a partial aggregate of its own, by key group; what many calls need is moved once."""
        places = pa.array(order_of_groups(groups))
        arrays = {name: gathered(column, places) for name, column in {KEY_GROUP_COLUMN: groups, **keys}.items()}
        ones = pa.array(np.ones(len(groups), dtype=np.int64))
        moved: dict[_Form, pa.Array] = {}
        for call in self.calls:
            form = None if call.column is None else _known_form(call, values)
            if form is None or (call.function == "count" and _are_all_there(values[form])):
                arrays[call.name] = ones
                continue
            if form not in moved:
                moved[form] = gathered(values[form], places)
            arrays[call.name] = restored(call, _ones(moved[form]) if call.function == "count" else moved[form])
        return self._batch(arrays)

    def _batch(self, arrays: dict[str, pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)


def memory_to_group(rows: int, size: int) -> int:
    """Memory that it takes to sort or hash rows: the values twice, and some numbers for each row.

    Args:
        rows: how many there are.
        size: bytes of their values.
    """
    return 2 * size + _BYTES_TO_GROUP * rows


def spelled_out(table: pa.Table) -> pa.Table:
    """Rows whose texts are texts."""
    for at, name in enumerate(table.column_names):
        if pa.types.is_dictionary(table.schema.field(name).type):
            column = table.column(at)
            table = table.set_column(at, name, column.cast(column.type.value_type))
    return table


def _bytes_of(texts: pa.Array, numbers: pa.Array) -> int:
    """How much texts take, by their numbers."""
    return pc.sum(pc.binary_length(texts).take(numbers)).as_py() or 0


def _form(call: PartialCall, data_type: pa.DataType) -> _Form:
    """In which form a call needs values of a type; what is added and compared as it is has one form for both."""
    column, types = str(call.column), pa.types
    if types.is_float64(data_type) and (call.is_rounded or call.function in ("min", "max")):
        return column, "double"
    if call.is_rounded:
        return column, "rounded"
    if call.function == "sum" and types.is_floating(data_type):
        return column, "whole"
    if call.function == "sum" and is_whole_number(data_type) and not types.is_int64(data_type):
        return column, "long"
    return column, "compared"


def _known_form(call: PartialCall, values: dict[_Form, pa.Array]) -> _Form:
    """The form of a call's values among those that there are; a count is of any, which all have the same nulls."""
    if call.function == "count":
        return next(form for form in values if form[0] == call.column)
    names: tuple[str, ...] = ("double", "compared")
    if call.function == "sum":
        names = ("double", "rounded") if call.is_rounded else ("long", "whole", "compared")
    return next(form for form in ((str(call.column), name) for name in names) if form in values)


def _are_all_there(values: pa.Array) -> bool:
    """Whether no value is null; values that are counted say so themselves."""
    return bool(values.true_count == len(values)) if pa.types.is_boolean(values.type) else values.null_count == 0


def _ones(values: pa.Array) -> pa.Array:
    """One for each value that is counted, and zero for others."""
    return (values if pa.types.is_boolean(values.type) else values.is_valid()).cast(pa.int64())


def _form_of(call: PartialCall, values: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_float64(values.type) and call.function in ("min", "max"):
        return unchunked(values)
    found = unchunked(comparable(call, values))
    return typed(found, pa.int64()) if call.function == "sum" and is_whole_number(found.type) else found
