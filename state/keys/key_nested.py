"""Structs and lists inside keys; see :mod:`.key_fields` for the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.byte_arrays import valid_mask
from ..codec.conversions import MisfitError
from ..codec.structs import StructClass, struct_values
from .key_fields import FixedField, KeyField


class StructField(KeyField):
    """Fields one after the other."""

    def __init__(self, data_type: pa.DataType, children: Sequence[KeyField], struct_class: StructClass) -> None:
        super().__init__(data_type)
        self._children = list(children)
        self._names = [data_type.field(i).name for i in range(data_type.num_fields)]
        self._made = struct_class(self._names)
        self.width = None

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        return b"\x01" + b"".join(
            child.encode(part) for child, part in zip(self._children, self._parts(value), strict=True)
        )

    def _parts(self, value: Any) -> Sequence[Any]:
        return struct_values(value, self._names)

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        if data[position] == 0:
            return None, position + 1
        position += 1
        parts = []
        for child in self._children:
            part, position = child.read(data, position, raw)
            parts.append(part)
        return tuple.__new__(self._made, parts), position

    def encode_array(self, array: pa.Array) -> pa.Array:
        parts = [child.encode_array(part) for child, part in zip(self._children, array.flatten(), strict=True)]
        joined = pc.binary_join_element_wise(pa.scalar(b"\x01"), *parts, pa.scalar(b""))
        if not isinstance(joined, pa.Array):  # a struct without fields
            joined = pa.array([b"\x01"] * len(array), pa.binary())
        return pc.if_else(array.is_valid(), joined, pa.scalar(b"\x00")) if array.null_count else joined

    def build(self, values: Sequence[Any]) -> pa.Array:
        nulls = np.fromiter((value is None for value in values), dtype=bool, count=len(values))
        columns = [
            child.build([None if value is None else value[i] for value in values])
            for i, child in enumerate(self._children)
        ]
        return _struct_array(self.type, columns, nulls)


class FixedStructField(FixedField, StructField):
    """A struct of fixed-width fields, such as a window; a null is padded."""

    def __init__(self, data_type: pa.DataType, children: Sequence[FixedField], struct_class: StructClass) -> None:
        StructField.__init__(self, data_type, children, struct_class)
        self._fixed = list(children)
        self.width = 1 + sum(child.width for child in children)

    def encode(self, value: Any) -> bytes:
        return bytes(self.width) if value is None else StructField.encode(self, value)

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        if data[position] == 0:
            return None, position + self.width
        return StructField.read(self, data, position, raw)

    def fill(self, array: pa.Array, matrix: np.ndarray) -> None:
        mask = valid_mask(array)
        matrix[:, 0] = 1 if mask is None else mask
        position = 1
        for child, part in zip(self._fixed, array.flatten(), strict=True):
            child.fill(part, matrix[:, position : position + child.width])
            position += child.width

    def take(self, matrix: np.ndarray) -> pa.Array:
        columns, position = [], 1
        for child in self._fixed:
            columns.append(child.take(matrix[:, position : position + child.width]))
            position += child.width
        return _struct_array(self.type, columns, matrix[:, 0] == 0)


class ListField(KeyField):
    """Elements in order; a list sorts before its continuations."""

    width = None

    def __init__(self, data_type: pa.DataType, element: KeyField) -> None:
        super().__init__(data_type)
        self._element = element

    def encode(self, value: Any) -> bytes:
        if value is None:
            return b"\x00"
        if not isinstance(value, (list, tuple)):
            raise MisfitError("a list")
        return b"\x01" + b"".join([b"\x01" + self._element.encode(part) for part in value]) + b"\x00"

    def read(self, data: bytes, position: int, raw: bool) -> tuple[Any, int]:
        if data[position] == 0:
            return None, position + 1
        position += 1
        parts = []
        while data[position] == 1:
            part, position = self._element.read(data, position + 1, raw)
            parts.append(part)
        return parts, position + 1

    def encode_array(self, array: pa.Array) -> pa.Array:
        parts = self._element.encode_array(_one_array(pc.list_flatten(array))).to_pylist()
        lengths = pc.list_value_length(array).to_pylist()
        encoded, position = [], 0
        for length in lengths:
            if length is None:
                encoded.append(b"\x00")
                continue
            elements = parts[position : position + length]
            encoded.append(b"\x01" + b"".join([b"\x01" + element for element in elements]) + b"\x00")
            position += length
        return pa.array(encoded, pa.binary())

    def build(self, values: Sequence[Any]) -> pa.Array:
        elements = self._element.build([part for value in values if value is not None for part in value])
        offsets, position = [], 0
        for value in values:
            offsets.append(None if value is None else position)
            position += len(value or ())
        plain = pa.ListArray.from_arrays(pa.array([*offsets, position], pa.int32()), elements)
        return plain.cast(self.type)


def _struct_array(data_type: pa.DataType, columns: list[pa.Array], nulls: np.ndarray) -> pa.Array:
    fields = [data_type.field(i) for i in range(data_type.num_fields)]
    if not fields:
        return pa.array([None if null else {} for null in nulls.tolist()], data_type)
    mask = pa.array(nulls) if nulls.any() else None
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
