"""Regular expressions that Java and RE2 understand alike, and texts that are split.

Of a pattern each part has to be known: letters and digits, escaped signs, ``\\d`` and ``\\w``, classes of these,
groups, alternatives, repetitions.  A dot and an end of text are not the same before line ends, so texts that have any
are left to Spark.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...catalyst.spark_expressions import class_name, items
from ..parquet_scan import NotTakenError
from .texts import checked
from .translator import Build, Translator, not_known
from .values import FUNCTIONS, Function, Value

_SIGN = r"\\[^A-Za-z0-9]|\\[dw]"
_PART = re.compile(
    rf"""(?P<atom>{_SIGN}|\[\^?(?:[A-Za-z0-9\ _./:;,=%@#!~<>+*?(){{}}|$-]|{_SIGN})+\]|[A-Za-z0-9 _/:;,=%@#!~<>&'"-])
    |(?P<anything>\.)|(?P<open>\((?:\?:)?(?!\?))|(?P<close>\))|(?P<either>[|])|(?P<begin>\^)|(?P<end>\$)
    |(?P<times>[*+?]\??|\{{[0-9]{{1,2}}(?:,[0-9]{{0,2}})?\}}\??)""",
    re.VERBOSE,
)
#: Within a class Python warns that they may become operations on sets.
_OF_SETS = ("--", "~~", "||")
_LINE_ENDS = "[\n\r\u0085\u2028\u2029]"
_LITERAL = re.compile(r"(?:[A-Za-z0-9 _/:;,=%@#!~<>&'\"-]|\\[^A-Za-z0-9])+")


def parts_of(pattern: str) -> list[tuple[str, str]] | None:
    """The parts of a pattern, with their kinds; None: one is not known."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None or part.end() == at:
            return None
        kind = str(part.lastgroup)
        if kind == "times" and (not found or found[-1][0] not in ("atom", "anything", "close")):
            return None
        if part[0].startswith("[") and any(pair in part[0] for pair in _OF_SETS):
            return None
        found.append((kind, part[0]))
        at = part.end()
    try:
        re.compile(pattern)
    except re.error:
        return None
    return found if pattern.isascii() and pattern.isprintable() else None


def _known_parts(to: Translator, expression: Any, child: Any) -> list[tuple[str, str]]:
    parts = parts_of(to.text(child))
    if parts is None:
        raise not_known(expression, "a pattern with parts that Java and RE2 may understand differently")
    return parts


def _needs_one_line(parts: list[tuple[str, str]]) -> bool:
    return any(kind in ("anything", "end") for kind, _ in parts)


def matched_by(to: Translator, expression: Any, children: list[Any]) -> Value:
    parts = _known_parts(to, expression, children[1])
    pattern = "".join(text for _, text in parts)
    return Value("matches", pa.bool_(), (to.value(children[0]),), (pattern, _needs_one_line(parts)))


def extracted(to: Translator, expression: Any, children: list[Any]) -> Value:
    parts, number = _known_parts(to, expression, children[1]), int(to.literal(children[2]))
    if any(kind == "close" and after == "times" for (kind, _), (after, _) in pairwise(parts)):
        raise not_known(expression, "a pattern with repeated groups")
    made, groups = [], 0
    for _, text in parts:
        if text == "(":
            groups += 1
            text = "(?P<x>" if groups == number else "(?:"
        made.append(text)
    if not 0 <= number <= groups:
        raise not_known(expression, "without such a group")
    pattern = "".join(made)
    pattern = pattern if number else f"(?P<x>{pattern})"
    return Value("extracted", pa.string(), (to.value(children[0]),), (pattern, _needs_one_line(parts)))


def item(name: str) -> Build:
    """One part of a text that is split; other arrays are Spark's."""

    def build(to: Translator, expression: Any, children: list[Any]) -> Value:
        source, place = children
        if class_name(source) != "StringSplit":
            raise not_known(expression)
        text, separator, limit = items(source.children())
        pattern, at = to.text(separator), int(to.literal(place))
        if not _LITERAL.fullmatch(pattern) or not pattern.isascii() or int(to.literal(limit)) > 0 or at < 0:
            raise not_known(expression, "split by a pattern, or with a limit")
        mode = ("checked",) if bool(expression.failOnError()) else ()
        return Value(name, pa.string(), (to.value(text),), (re.sub(r"\\(.)", r"\1", pattern), at, *mode))

    return build


def _of_one_line(value: Value, texts: pa.Array) -> pa.Array:
    texts = checked(texts)
    if value.options[1] and pc.any(pc.match_substring_regex(texts, _LINE_ENDS)).as_py():
        raise NotTakenError(f"{value.function} of a text with line ends")
    return texts


def _matches(value: Value, texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(_of_one_line(value, texts), value.options[0])


def _extracted(value: Value, texts: pa.Array) -> pa.Array:
    found = pc.struct_field(pc.extract_regex(_of_one_line(value, texts), value.options[0]), "x")
    return pc.if_else(texts.is_valid(), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def _item(value: Value, texts: pa.Array) -> pa.Array:
    separator, at, *is_checked = value.options
    parts = pc.split_pattern(texts, separator)
    offsets = parts.offsets.to_numpy().astype(np.int64)
    places = offsets[:-1] + at
    is_there = places < offsets[1:]
    if texts.null_count:
        is_there &= texts.is_valid().to_numpy(zero_copy_only=False)
    if is_checked and int(is_there.sum()) < len(texts) - texts.null_count:
        raise NotTakenError("an item behind the last one")
    return parts.values.take(pa.array(np.where(is_there, places, 0), mask=~is_there))


FUNCTIONS |= {
    "matches": Function(_matches, can_fail=True),
    "extracted": Function(_extracted, can_fail=True),
    "split_item": Function(_item, can_fail=True),
}
