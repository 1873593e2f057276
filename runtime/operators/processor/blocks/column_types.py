"""Decides which Arrow columns a handler of blocks may return for a type: those that keep every value.

Arrow's own casts go further: they read numbers out of text, count a bool as a number and take 2.0 for 2, silently.
What a row of state or output may not hold, a column may not hold either, so the types are compared first, once for a
whole column; casts between those that pass are safe ones, which refuse a value that is out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as types


def _is_text(data_type: pa.DataType) -> bool:
    return types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type)


def _is_bytes(data_type: pa.DataType) -> bool:
    return (
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_binary_view(data_type)
        or types.is_fixed_size_binary(data_type)
    )


def _is_list(data_type: pa.DataType) -> bool:
    return types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type)


#: What a column of a kind takes besides its own: a float an int (that it represents exactly), bytes a text's UTF-8.
_KINDS: tuple[tuple[Callable[[Any], bool], tuple[Callable[[Any], bool], ...]], ...] = (
    (types.is_boolean, ()),
    (types.is_integer, ()),
    (types.is_floating, (types.is_integer,)),
    (types.is_decimal, (types.is_integer,)),
    (_is_text, ()),
    (_is_bytes, (_is_text,)),
)


def check_column_type(found: pa.DataType, wanted: pa.DataType) -> None:
    """Raise TypeError if a column of one type would have to become something else to be of another.

    Args:
        found: the column's.
        wanted: that of the field which it is for.
    """
    if types.is_dictionary(found):
        found = found.value_type
    if found == wanted or types.is_null(found):
        return
    if types.is_temporal(found) or types.is_temporal(wanted):
        if types.is_temporal(found) != types.is_temporal(wanted):
            raise TypeError(
                f"{found} is not cast to {wanted}, because its unit is unknown; for milliseconds since 1970 cast to"
                " timestamp('ms', tz='UTC') and view as int64"
            )
        return
    if _is_list(wanted) and _is_list(found):
        check_column_type(found.value_type, wanted.value_type)
        return
    if types.is_map(wanted) and types.is_map(found):
        check_column_type(found.key_type, wanted.key_type)
        check_column_type(found.item_type, wanted.item_type)
        return
    if types.is_struct(wanted) and types.is_struct(found):
        inner = {field.name: field.type for field in found}
        for field in wanted:
            if field.name in inner:
                check_column_type(inner[field.name], field.type)
        return
    for is_kind, others in _KINDS:
        if is_kind(wanted):
            if not is_kind(found) and not any(is_other(found) for is_other in others):
                raise TypeError(f"{found} is not cast to {wanted}; cast it yourself if that is what you mean")
            return
