"""Schemas as DDL text: by Spark where there is a session, and without one by what is written here.

Processors declare their state in DDL, and only a JVM has Spark's parser.  Where there is none, in a unit test of a
processor, the usual texts are read all the same: names, bare or in backticks, with or without a colon, types of any
depth, ``NOT NULL`` and ``COMMENT``.
"""

from __future__ import annotations

import re
from typing import cast

from pyspark import SparkContext
from pyspark.sql import types as T

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_0-9]+|[<>(),:])")
#: Types of one word, by all of their names.
_PLAIN: dict[str, type[T.DataType]] = {
    "boolean": T.BooleanType,
    "tinyint": T.ByteType,
    "byte": T.ByteType,
    "smallint": T.ShortType,
    "short": T.ShortType,
    "int": T.IntegerType,
    "integer": T.IntegerType,
    "bigint": T.LongType,
    "long": T.LongType,
    "float": T.FloatType,
    "real": T.FloatType,
    "double": T.DoubleType,
    "string": T.StringType,
    "binary": T.BinaryType,
    "date": T.DateType,
    "timestamp": T.TimestampType,
    "timestamp_ltz": T.TimestampType,
    "timestamp_ntz": T.TimestampNTZType,
    "void": T.NullType,
}
_DECIMALS = ("decimal", "dec", "numeric")


def parse_ddl(text: str) -> T.StructType:
    """The schema of a DDL text.

    Raises:
        ParseException: Spark's own, where there is a session.
        ValueError: it is no schema, or one that only Spark can read.
    """
    if SparkContext._active_spark_context is not None:
        return cast("T.StructType", T.StructType.fromDDL(text))
    return _Parser(text).schema()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(text[at:].strip()[:20])
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def _wrong(self, at: str | None) -> ValueError:
        where = "at its end" if at is None else f"at {at!r}"
        return ValueError(
            f"it cannot be read {where}; without a Spark session only plain DDL can, as 'id string, n long'"
        )

    @property
    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *wanted: str) -> str:
        token = self._next
        if token is None or (wanted and token.lower() not in wanted):
            raise self._wrong(token)
        self._at += 1
        return token

    def _has(self, *words: str) -> bool:
        """Take these words if they come next."""
        here = [token.lower() for token in self._tokens[self._at : self._at + len(words)]]
        if here != list(words):
            return False
        self._at += len(words)
        return True

    def schema(self) -> T.StructType:
        if [token.lower() for token in self._tokens[:2]] == ["struct", "<"]:
            found = self._type()
        else:
            found = T.StructType(self._fields(None))
        if self._next is not None:
            raise self._wrong(self._next)
        return cast(T.StructType, found)

    def _fields(self, end: str | None) -> list[T.StructField]:
        fields = [] if self._next == end else [self._field()]
        while fields and self._has(","):
            fields.append(self._field())
        return fields

    def _field(self) -> T.StructField:
        name = self._take()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not (name[0].isalnum() or name[0] == "_") or name.isdigit():
            raise self._wrong(name)
        self._has(":")
        data_type = self._type()
        nullable = not self._has("not", "null")
        metadata = None
        if self._has("comment"):
            comment = self._take()
            if comment[0] not in "'\"":
                raise self._wrong(comment)
            metadata = {"comment": re.sub(r"\\(.)", r"\1", comment[1:-1])}
        return T.StructField(name, data_type, nullable, metadata)

    def _type(self) -> T.DataType:
        name = self._take()
        word = name.lower()
        if word in _PLAIN:
            return _PLAIN[word]()
        if word in _DECIMALS:
            return T.DecimalType(*self._numbers((10, 0)))
        if word == "array":
            self._take("<")
            element = self._type()
            self._take(">")
            return T.ArrayType(element)
        if word == "map":
            self._take("<")
            key = self._type()
            self._take(",")
            value = self._type()
            self._take(">")
            return T.MapType(key, value)
        if word == "struct":
            self._take("<")
            fields = self._fields(">")
            self._take(">")
            return T.StructType(fields)
        raise self._wrong(name)

    def _numbers(self, default: tuple[int, int]) -> tuple[int, int]:
        if not self._has("("):
            return default
        precision = self._number()
        scale = self._number() if self._has(",") else 0
        self._take(")")
        return precision, scale

    def _number(self) -> int:
        token = self._take()
        if not token.isdigit():
            raise self._wrong(token)
        return int(token)
