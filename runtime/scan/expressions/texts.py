"""Functions of texts, as Spark has them for strings without a collation.

Bytes are compared and joined as they are.  What counts characters needs texts that are UTF-8.  Upper and lower case are
known for letters of which both have one form: Java's rules for others depend on the version of Unicode, on the letters
around them and on its locale.
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


def checked(texts: pa.Array) -> pa.Array:
    """Texts that are UTF-8."""
    if not _is_ascii(texts):
        texts.validate(full=True)
    return texts


#: All but ASCII and letters of Latin-1, Latin Extended-A and Cyrillic that have one form in upper and in lower case.
_OTHER_LETTERS = (
    "[^\\x00-\\x7f\\x{a0}-\\x{b4}\\x{b6}-\\x{de}\\x{e0}-\\x{12f}\\x{132}-\\x{148}\\x{14a}-\\x{17e}\\x{400}-\\x{45f}]"
)


def _upper(value: Value, texts: pa.Array) -> pa.Array:
    return pc.ascii_upper(texts) if _is_ascii(texts) else pc.utf8_upper(_of_known_letters(value, texts))


def _lower(value: Value, texts: pa.Array) -> pa.Array:
    return pc.ascii_lower(texts) if _is_ascii(texts) else pc.utf8_lower(_of_known_letters(value, texts))


def _of_known_letters(value: Value, texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(checked(texts), _OTHER_LETTERS)).as_py():
        raise NotTakenError(f"{value.function} of a text with letters that may have another form")
    return texts


def _of_ascii(value: Value, texts: pa.Array) -> pa.Array:
    if not _is_ascii(texts):
        raise NotTakenError(f"{value.function} of a text with letters that are not ASCII")
    return texts


def _length(value: Value, texts: pa.Array) -> pa.Array:
    return pc.utf8_length(checked(texts))


def _substring(value: Value, texts: pa.Array) -> pa.Array:
    start, stop = value.options
    return pc.utf8_slice_codeunits(checked(texts), start, stop)


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
