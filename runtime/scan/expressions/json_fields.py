"""Fields of JSON texts, as Spark's ``from_json`` reads them without options.

What Spark's parser and msgspec's read alike is taken: objects of strict JSON, of which a field has its type or is null.
Of other texts two kinds are taken, since no field of theirs has a value in Spark: those that are cut off, and those
that do not begin as an object or an array.  What is left, such as a text where a number should be, is Spark's; so is a
text that is cut off within an object of the schema, of which Spark may keep the fields before that object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from ...catalyst.spark_expressions import class_name, items
from ...catalyst.types.arrow_types import arrow_type
from ..parquet_scan import NotTakenError
from .translator import Translator, not_known
from .values import FUNCTIONS, Function, Value
from .zones import zone_of

#: By Spark's type how values are read, and what they are then.  (Of a tinyint Spark takes numbers up to 255.)
_TYPES: dict[str, tuple[type, pa.DataType]] = {
    "string": (str, pa.string()),
    "boolean": (bool, pa.bool_()),
    "double": (float, pa.float64()),
    "smallint": (int, pa.int16()),
    "int": (int, pa.int32()),
    "bigint": (int, pa.int64()),
    "date": (str, pa.string()),
    "timestamp": (str, pa.string()),
}
#: What makes values of texts.
_CASTS = {"date": "text_to_date", "timestamp": "text_to_time"}
#: Settings that change what Spark reads.
SETTINGS = {"spark.sql.json.enablePartialResults": "true", "spark.sql.columnNameOfCorruptRecord": "_corrupt_record"}
#: Spark's parser limits how many digits a number has (1,000), how long a name is (50,000) and how deep objects lie in
#: each other (500).  Shorter texts cannot reach that.
_SHORT_BYTES, _LONGEST_BYTES, _NUMBER = 500, 50_000, re.compile(r"[0-9.eE+-]{500}")
_SPACE = " \t\r\n"
#: Types of fields.  Behind a value of another one (binary, void, variant) Spark's parser may go on in the wrong place.
_FIELD_TYPES = (
    *(StringType, BooleanType, NumericType, DateType, TimestampType, TimestampNTZType),
    *(DayTimeIntervalType, YearMonthIntervalType),
)
#: Names that stand in a text in another way.
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
#: What its reader says of a text that is cut off; more than it reads of one that is not.
_TRUNCATED, _PADDING = "Input data was truncated", " " * 8
#: A text that is cut off within a word or an escape.
_CUT_WORD = re.compile(r"[\[:,\s](?:t|tr|tru|f|fa|fal|fals|n|nu|nul)\Z")
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
#: Texts in quotes, of which the last may be cut off, and what opens, closes and names.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]:]', re.DOTALL)

#: Where a field is, by names from the outermost object on, and Spark's type.
_Field = tuple[tuple[str, ...], str]


def json_field(to: Translator, expression: Any, children: list[Any]) -> Value:
    """A field of a text, or of an object in it.

    Args:
        to: translates.
        expression: Spark's ``GetStructField``.
        children: what it is a field of.

    Raises:
        NotTakenError: it is of something else, or not read alike.
    """
    ordinals, source = [int(expression.ordinal())], children[0]
    while class_name(source) == "GetStructField":
        ordinals.insert(0, int(source.ordinal()))
        (source,) = items(source.children())
    if class_name(source) != "JsonToStructs":
        raise not_known(expression)
    schema = StructType.fromJson(json.loads(str(source.dataType().json())))
    if source.options().size() or set(schema.names) & set(SETTINGS.values()):
        raise not_known(source, "a from_json with options, or with a field for texts that cannot be read")
    text = to.value(next(items(source.children())))
    if text.function == "constant" or not _has_known_types(schema):
        raise not_known(source, "a from_json of a constant, or with fields of other types")
    fields = tuple(_fields(schema))
    path: list[str] = []
    data_type: Any = schema
    for ordinal in ordinals:
        path.append(data_type.fields[ordinal].name)
        data_type = data_type.fields[ordinal].dataType
    wanted = tuple(path), data_type.simpleString()
    if wanted not in fields:
        raise not_known(expression, f"of type {wanted[1]}")
    types = [(str(place), _TYPES[spark_type][1]) for place, (_, spark_type) in enumerate(fields)]
    place = fields.index(wanted)
    read = Value("from_json", pa.struct(types), (text,), (fields, tuple(schema.names)))
    found = Value("json_field", types[place][1], (read,), (place,))
    if wanted[1] not in _CASTS:
        return found
    options = (zone_of(source.zoneId()),) if wanted[1] == "timestamp" else ()
    return Value(_CASTS[wanted[1]], arrow_type(data_type), (found,), options)


def _has_known_types(data_type: Any) -> bool:
    """Whether Spark's parser finds the end of all values of a type."""
    if isinstance(data_type, ArrayType):
        return _has_known_types(data_type.elementType)
    if isinstance(data_type, MapType):
        return _has_known_types(data_type.valueType)
    if isinstance(data_type, StructType):
        return all(_has_known_types(field.dataType) for field in data_type.fields)
    return isinstance(data_type, _FIELD_TYPES)


def _fields(schema: StructType, path: tuple[str, ...] = ()) -> Iterator[_Field]:
    """The fields that are read, those of objects in objects included.

    Raises:
        NotTakenError: two have the same name, or one has signs that stand in a text in another way.
    """
    if len(set(schema.names)) < len(schema.names) or any(map(_ESCAPED.search, schema.names)):
        raise NotTakenError(f"from_json of fields with names that are read in another way: {', '.join(schema.names)}")
    for field in schema.fields:
        if field.metadata:  # texts of limited length have some, and so have default values
            continue
        if isinstance(field.dataType, StructType):
            yield from _fields(field.dataType, (*path, field.name))
        elif field.dataType.simpleString() in _TYPES:
            yield (*path, field.name), field.dataType.simpleString()


@lru_cache(maxsize=64)
def _decoder(fields: tuple[_Field, ...]) -> tuple[msgspec.json.Decoder[Any], Any, list[tuple[str, ...]]]:
    """Reads a text with some fields, all of which may be missing; what has none of them; and each field's members."""
    row, members = _row_type(fields)
    return msgspec.json.Decoder(row), row(), members


def _row_type(fields: Sequence[_Field]) -> tuple[type[msgspec.Struct], list[tuple[str, ...]]]:
    """A type with some fields, and for each of them the member that it is, or the way to it."""
    inner: dict[str, list[_Field]] = {}
    for (name, *path), spark_type in fields:
        inner.setdefault(name, []).append((tuple(path), spark_type))
    members, ways = [], list[tuple[str, ...]]()
    for place, (name, its) in enumerate(inner.items()):
        rest, spark_type = its[0]
        its_type, its_ways = _row_type(its) if rest else (_TYPES[spark_type][0], [()])
        members.append((f"f{place}", its_type | None, msgspec.field(name=name, default=None)))
        ways += [(f"f{place}", *way) for way in its_ways]
    return msgspec.defstruct("JsonRow", members, gc=False), ways


def _from_json(value: Value, texts: pa.Array) -> pa.Array:
    fields, names = value.options
    decoder, nothing, members = _decoder(fields)
    decode, rows = decoder.decode, list[Any]()
    try:
        lines = texts.to_pylist()
    except UnicodeDecodeError as error:
        raise NotTakenError(f"from_json of a text that is not UTF-8: {error}") from error
    _check_limits(texts, lines)
    for line in lines:
        if line is None:
            rows.append(nothing)
            continue
        try:
            rows.append(decode(line))
        except msgspec.DecodeError as error:
            if not _has_no_field(line, str(error), decoder, names):
                raise NotTakenError(f"from_json of a text that only Spark reads: {error}") from error
            rows.append(nothing)
    columns = [_column(rows, way, field.type) for way, field in zip(members, value.type, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(value.type))


def _check_limits(texts: pa.Array, lines: list[str | None]) -> None:
    """Raise if a text may be more than Spark's parser reads."""
    lengths = pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(lengths >= _SHORT_BYTES).tolist():
        line = str(lines[place])
        deep = line.count("[") + line.count("{")
        if lengths[place] > _LONGEST_BYTES or deep >= _SHORT_BYTES or _NUMBER.search(line):
            raise NotTakenError("from_json of a text with long numbers or names, or with many objects")


def _has_no_field(line: str, error: str, decoder: msgspec.json.Decoder[Any], names: Sequence[str]) -> bool:
    """Whether no field of a text that is not JSON has a value in Spark.

    Args:
        line: the text.
        error: what its reader says.
        decoder: its reader.
        names: of the schema's fields.
    """
    first = line.lstrip(_SPACE)[:1]
    if not first.isascii() or first == "[":
        return False
    if first != "{":
        return True
    # Whether it is cut off elsewhere than in a word or an escape.
    is_outside_words = error.endswith(f"invalid number (byte {len(line.encode())})")
    if error == _TRUNCATED and "\\ud" not in line.lower():  # halves of letters look like an end, too
        # What is wrong so near to the end that the reader wants more letters is not cut off.
        is_outside_words = _error_of(line + _PADDING, decoder) == _TRUNCATED
        if not is_outside_words and not _CUT_WORD.search(line) and not _CUT_ESCAPE.search(line):
            return False
    elif not is_outside_words:
        return False
    try:
        around, name = _place_at_end(line)
    except ValueError:  # a name is not JSON
        return False
    return name not in names or (is_outside_words and "{" not in around[1:]) or len(around) == 1


def _error_of(line: str, decoder: msgspec.json.Decoder[Any]) -> str:
    try:
        decoder.decode(line)
    except msgspec.DecodeError as error:
        return str(error)
    return ""


def _place_at_end(line: str) -> tuple[str, str]:
    """In which objects and arrays a text ends, the outermost first, and in which field of that."""
    around, name, last = "", "null", ""
    for token in _TOKENS.findall(line):
        if token in "{[":
            around += token
        elif token in "}]":
            around = around[:-1]
        elif token != ":":
            last = token
        elif len(around) == 1:
            name = last
    return around, json.loads(name)


def _column(rows: Sequence[Any], way: Sequence[str], data_type: pa.DataType) -> pa.Array:
    values = list(map(attrgetter(way[0]), rows))
    for member in way[1:]:
        values = [None if one is None else getattr(one, member) for one in values]
    try:
        found = pa.array(values, data_type)
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
