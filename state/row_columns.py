"""Values of a state variable for many keys at once, as Arrow columns.

The bytes are those of :class:`~.codec.RowCodec`: what is written here is read there, and the other way round.  There is
one call of C for a whole column where that one has Python for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ..errors import StateSchemaError
from .codec import RowCodec
from .conversions import decimal_of, unscaled_of

#: Makes of a column the list of what travels, and of that list a column.
_Conversion = tuple[Callable[[pa.Array], list[Any]], Callable[[Sequence[Any]], pa.Array]]


class RowColumns:
    """Encodes and decodes columns of values.

    Args:
        codec: of the variable's values.
        name: the variable, for errors.

    Raises:
        StateSchemaError: a field is a list, a map or a struct, of which there is no such form.
    """

    def __init__(self, codec: RowCodec, name: str) -> None:
        self._codec = codec
        self._name = name
        self.type = pa.struct(list(codec.schema))
        self._conversions = [_conversion(field, name) for field in codec.schema]

    def encode(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """The bytes of each value.

        Args:
            columns: one for each field, of its type.

        Raises:
            StateSchemaError: null in a field that is not nullable.
        """
        for column, field in zip(columns, self._codec.schema, strict=True):
            if column.null_count and not field.nullable:
                raise StateSchemaError(
                    f"state field {field.name!r} of {self._name!r} got nulls; it is declared as not nullable"
                )
        travelling = [to_list(column) for column, (to_list, _) in zip(columns, self._conversions, strict=True)]
        return self._codec.pack_rows(zip(*travelling, strict=True))

    def decode(self, values: Sequence[bytes | None]) -> pa.StructArray:
        """Inverse of :meth:`encode`; None is null."""
        there = [value for value in values if value is not None]
        if not there:
            return pa.nulls(len(values), self.type)
        rows = self._codec.unpack_rows(there)
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        arrays = [to_array(column) for column, (_, to_array) in zip(columns, self._conversions, strict=True)]
        found = pa.StructArray.from_arrays(arrays, fields=list(self.type))
        if len(there) == len(values):
            return found
        place = iter(range(len(there)))
        return found.take(pa.array([None if value is None else next(place) for value in values], pa.int64()))


def _conversion(field: pa.Field, name: str) -> _Conversion:
    data_type, types = field.type, pa.types
    if types.is_boolean(data_type) or types.is_string(data_type) or types.is_binary(data_type):
        return pa.Array.to_pylist, lambda values: pa.array(values, data_type)
    if types.is_signed_integer(data_type) or types.is_floating(data_type):
        return _numbers, lambda values: pa.array(values, data_type)
    if types.is_timestamp(data_type) or types.is_duration(data_type) or types.is_time64(data_type):
        return _as_numbers(pa.int64(), data_type)
    if types.is_date32(data_type):
        return _as_numbers(pa.int32(), data_type)
    if types.is_decimal128(data_type):
        precision, scale = data_type.precision, data_type.scale

        def digits(column: pa.Array) -> list[Any]:
            values: list[Decimal | None] = column.to_pylist()
            return [None if value is None else str(unscaled_of(value, precision, scale)) for value in values]

        def decimals(values: Sequence[Any]) -> pa.Array:
            return pa.array([None if text is None else decimal_of(int(text), scale) for text in values], data_type)

        return digits, decimals
    raise StateSchemaError(
        f"field {field.name!r} of state {name!r} is {data_type}: values with lists, maps or structs inside have no form"
        " of columns; use the state one key at a time, in handleInputRows"
    )


def _as_numbers(number: pa.DataType, data_type: pa.DataType) -> _Conversion:
    return lambda column: _numbers(column.view(number)), lambda values: pa.array(values, number).view(data_type)


def _numbers(column: pa.Array) -> list[Any]:
    if column.null_count:
        values: list[Any] = column.to_pylist()
        return values
    numbers: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return numbers
