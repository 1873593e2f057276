"""Functions of texts, as Spark has them for strings without a collation.

Bytes are compared and joined as they are.  What counts characters needs texts that are UTF-8, and upper and lower case
are known for ASCII alone: Java's rules for other letters are of another version of Unicode, and of its locale.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..parquet_scan import NotTakenError
from .values import FUNCTIONS, Function, Value


def _is_ascii(texts: Any) -> bool:
    return bool(pc.all(pc.fill_null(pc.string_is_ascii(texts), True)).as_py())


def _checked(texts: pa.Array) -> pa.Array:
    """Texts that are UTF-8."""
    if not _is_ascii(texts):
        texts.validate(full=True)
    return texts


def _upper(value: Value, texts: pa.Array) -> pa.Array:
    return pc.ascii_upper(_of_ascii(value, texts))


def _lower(value: Value, texts: pa.Array) -> pa.Array:
    return pc.ascii_lower(_of_ascii(value, texts))


def _of_ascii(value: Value, texts: pa.Array) -> pa.Array:
    if not _is_ascii(texts):
        raise NotTakenError(f"{value.function} of a text with letters that are not ASCII")
    return texts


def _length(value: Value, texts: pa.Array) -> pa.Array:
    return pc.utf8_length(_checked(texts))


def _substring(value: Value, texts: pa.Array) -> pa.Array:
    start, stop = value.options
    return pc.utf8_slice_codeunits(_checked(texts), start, stop)


def _concat(value: Value, *texts: Any) -> Any:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _joined(value: Value, *texts: Any) -> Any:
    first, *others = texts
    if isinstance(first, pa.Array):
        # Arrow leaves out rows of which all texts are null.
        missing = reduce(pc.and_, [pc.is_null(one) for one in texts])
        first = pc.if_else(missing, "", first)
    return pc.binary_join_element_wise(first, *others, value.options[0], null_handling="skip")


def _position(value: Value, texts: pa.Array) -> pa.Array:
    return pc.add(pc.find_substring(_of_ascii(value, texts), value.options[0]), 1)


def _like(value: Value, texts: pa.Array) -> pa.Array:
    """Texts that begin, end, or both, with something; each may overlap with nothing of the other."""
    first, last = value.options
    found = pc.and_(pc.starts_with(texts, first), pc.ends_with(texts, last))
    return pc.and_(found, pc.greater_equal(pc.binary_length(texts), len(first.encode()) + len(last.encode())))


FUNCTIONS |= {
    "upper": Function(_upper, can_fail=True),
    "lower": Function(_lower, can_fail=True),
    "length": Function(_length, can_fail=True),
    "substring": Function(_substring, can_fail=True),
    "concat": Function(_concat),
    "concat_ws": Function(_joined),
    "trim": Function(lambda value, texts: pc.ascii_trim(texts, " ")),
    "ltrim": Function(lambda value, texts: pc.ascii_ltrim(texts, " ")),
    "rtrim": Function(lambda value, texts: pc.ascii_rtrim(texts, " ")),
    "starts_with": Function(lambda value, texts: pc.starts_with(texts, value.options[0])),
    "ends_with": Function(lambda value, texts: pc.ends_with(texts, value.options[0])),
    "contains": Function(lambda value, texts: pc.match_substring(texts, value.options[0])),
    "begins_and_ends": Function(_like),
    "replace": Function(lambda value, texts: pc.replace_substring(texts, *value.options)),
    "position": Function(_position, can_fail=True),
}
