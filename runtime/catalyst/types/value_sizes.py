"""The size of values by their type: of numbers and times all are of one size, of texts none is known."""

from __future__ import annotations

import math

import pyarrow as pa


def value_bits(data_type: pa.DataType, text: float = math.inf) -> float:
    """Size of each value of a type.

    Args:
        data_type: the type; that of a struct is the sum of its fields.
        text: bits that a text counts for.

    Returns:
        Bits; infinite for lists and maps.
    """
    if pa.types.is_struct(data_type):
        return sum(value_bits(field.type, text) for field in data_type)
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return text
    if pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type):
        return float(data_type.bit_width)
    return math.inf
