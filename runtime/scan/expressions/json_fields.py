"""Fields of JSON texts, as Spark's ``from_json`` reads them without options.

What Spark's parser and msgspec's read alike is taken: objects of strict JSON, of which a field has its type or is null.
Of other texts two kinds are taken, since no field of theirs has a value in Spark: those that are cut off, and those
that do not begin as an object or an array.  What is left, such as a text in quotes of one kind where a number should
be, is Spark's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ...catalyst.spark_expressions import class_name, items
from ...catalyst.types.arrow_types import arrow_type
from ..parquet_scan import NotTakenError
from .translator import Translator, not_known
from .values import FUNCTIONS, Function, Value

#: Spark's types that both read alike.  (Of a tinyint Spark takes numbers up to 255.)
_TYPES: dict[str, type] = {
    **{"string": str, "boolean": bool, "double": float},
    **{"smallint": int, "int": int, "bigint": int},
}
#: Settings that change what Spark reads.
SETTINGS = {"spark.sql.json.enablePartialResults": "true", "spark.sql.columnNameOfCorruptRecord": "_corrupt_record"}
#: Spark's parser limits how many digits a number has (1,000), how long a name is (50,000) and how deep objects lie in
#: each other (500).  Shorter texts cannot reach that.
_SHORT_BYTES, _LONGEST_BYTES, _DIGITS = 500, 50_000, re.compile(r"[0-9]{500}")
_SPACE = " \t\r\n"

#: A field's name and Spark's type.
_Field = tuple[str, str]


def json_field(to: Translator, expression: Any, children: list[Any]) -> Value:
    """A field of a text; ``expression``: Spark's ``GetStructField``."""
    (source,) = children
    if class_name(source) != "JsonToStructs":
        raise not_known(expression)
    schema = StructType.fromJson(json.loads(str(source.dataType().json())))
    names = schema.names
    if source.options().size() or len(set(names)) < len(names) or set(names) & set(SETTINGS.values()):
        raise not_known(source, "a from_json with options, or with two fields of one name")
    # Texts of limited length look like others.
    known = [field for field in schema.fields if field.dataType.simpleString() in _TYPES and not field.metadata]
    wanted = schema.fields[int(expression.ordinal())]
    if wanted not in known:
        raise not_known(expression, f"of type {wanted.dataType.simpleString()}")
    types = [(field.name, arrow_type(field.dataType)) for field in known]
    fields = tuple((field.name, field.dataType.simpleString()) for field in known)
    read = Value("from_json", pa.struct(types), to.values(list(items(source.children()))), fields)
    place = known.index(wanted)
    return Value("json_field", types[place][1], (read,), (place,))


@lru_cache(maxsize=64)
def _decoder(fields: tuple[_Field, ...]) -> tuple[msgspec.json.Decoder[Any], Any]:
    """Reads a text with some fields, all of which may be missing; and what has none of them."""
    members = [
        (f"f{place}", _TYPES[spark_type] | None, msgspec.field(name=name, default=None))
        for place, (name, spark_type) in enumerate(fields)
    ]
    row = msgspec.defstruct("JsonRow", members, gc=False)
    return msgspec.json.Decoder(row), row()


def _from_json(value: Value, texts: pa.Array) -> pa.Array:
    decoder, nothing = _decoder(value.options)
    decode, rows = decoder.decode, list[Any]()
    try:
        lines = texts.to_pylist()
    except UnicodeDecodeError as error:
        raise NotTakenError(f"from_json of a text that is not UTF-8: {error}") from error
    for line in _checked(texts, lines):
        if line is None:
            rows.append(nothing)
            continue
        try:
            rows.append(decode(line))
        except msgspec.DecodeError as error:
            if not _has_no_field(line, str(error)):
                raise NotTakenError(f"from_json of a text that only Spark reads: {error}") from error
            rows.append(nothing)
    columns = [_column(rows, place, field.type) for place, field in enumerate(value.type)]
    return pa.StructArray.from_arrays(columns, fields=list(value.type))


def _checked(texts: pa.Array, lines: list[str | None]) -> Sequence[str | None]:
    """The texts.

    Raises:
        NotTakenError: one may be more than Spark's parser reads.
    """
    long = pc.greater_equal(pc.binary_length(texts), _SHORT_BYTES)
    for place in np.flatnonzero(long.fill_null(False).to_numpy(zero_copy_only=False)).tolist():
        line = str(lines[place])
        deep = line.count("[") + line.count("{")
        if len(line) > _LONGEST_BYTES or deep >= _SHORT_BYTES or _DIGITS.search(line):
            raise NotTakenError("from_json of a text with long numbers or names, or with many objects")
    return lines


def _has_no_field(line: str, error: str) -> bool:
    """Whether no field of a text that is not JSON has a value in Spark; ``error``: what its reader says."""
    if error == "Input data was truncated":
        return "\\ud" not in line.lower()  # halves of letters look like an end, too
    if error.endswith(f"invalid number (byte {len(line.encode())})"):  # which is cut off
        return True
    first = line.lstrip(_SPACE)[:1]
    return first.isascii() and first not in "{["


def _column(rows: Sequence[Any], place: int, data_type: pa.DataType) -> pa.Array:
    try:
        found = pa.array(list(map(attrgetter(f"f{place}"), rows)), data_type)
    except OverflowError as error:
        raise NotTakenError(f"from_json of a number that is no {data_type}") from error
    if pa.types.is_float64(data_type):
        numbers = found.fill_null(1.0).to_numpy()
        if ((numbers == 0) & np.signbit(numbers)).any():
            raise NotTakenError("from_json of a negative zero")
    return found


FUNCTIONS |= {
    "from_json": Function(_from_json, can_fail=True, is_slow=True),
    "json_field": Function(lambda value, fields: fields.field(value.options[0])),
}
