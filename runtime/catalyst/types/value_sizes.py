"""The size of values by their type: of numbers and times all are of one size, of texts none is known."""

from __future__ import annotations

import math
from collections.abc import Iterable

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


def are_of_one_size(types: Iterable[pa.DataType]) -> bool:
    """True if all values of each of the types have one size."""
    return not any(math.isinf(value_bits(data_type)) for data_type in types)


def have_lists(types: Iterable[pa.DataType]) -> bool:
    """True if one of the types is or has a list or a map, whose size no texts say."""
    return any(math.isinf(value_bits(data_type, text=0)) for data_type in types)
