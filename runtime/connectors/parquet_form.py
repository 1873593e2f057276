"""The form of Parquet files by Spark's options: their codec, how they hold timestamps, how many rows they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampNTZType

from ...errors import OptionError

#: Spark's codecs, and what Arrow calls them.  (Spark's "lz4" is a form of Hadoop's own, which Arrow does not write.)
_CODECS = {
    "none": "none",
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "brotli",
    "lz4_raw": "lz4",
}
_FAST = "snappy"
CODEC_CONF = "spark.sql.parquet.compression.codec"
_TIMESTAMPS_CONF = "spark.sql.parquet.outputTimestampType"
#: In the order in which Spark looks for the codec.
_CODEC_OPTIONS = ("compression", "parquet.compression", CODEC_CONF)
_ROWS = "maxRecordsPerFile"
#: By Spark's name what Arrow's writer is told.
_TIMESTAMPS: dict[str, dict[str, Any]] = {
    "TIMESTAMP_MICROS": {"coerce_timestamps": "us"},
    "TIMESTAMP_MILLIS": {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
    "INT96": {"use_deprecated_int96_timestamps": True},
}
#: What a writer may be told of its files, by lower case.
PARQUET_OPTIONS = {name.lower(): name for name in (*_CODEC_OPTIONS, _TIMESTAMPS_CONF, _ROWS)}


@dataclass(frozen=True)
class ParquetForm:
    """How Parquet files are written; the defaults are those of files that nobody but us reads."""

    #: None: that of the session in which they are written.
    codec: str | None = _FAST
    timestamps: str = "TIMESTAMP_MICROS"
    #: The most rows that a file has; None: as many as come.
    file_rows: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> ParquetForm:
        """What a writer was told; the names may be in any case.

        Raises:
            OptionError: a value is none that can be written.
        """
        given = {
            PARQUET_OPTIONS[name.lower()]: value for name, value in options.items() if name.lower() in PARQUET_OPTIONS
        }
        named = next((name for name in _CODEC_OPTIONS if name in given), None)
        if named is not None and given[named].lower() not in _CODECS:
            raise OptionError(
                f"option {named} = {given[named]!r} is not allowed for parquet; allowed: {', '.join(_CODECS)}"
            )
        timestamps = given.get(_TIMESTAMPS_CONF, cls.timestamps).upper()
        if timestamps not in _TIMESTAMPS:
            raise OptionError(
                f"option {_TIMESTAMPS_CONF} = {given[_TIMESTAMPS_CONF]!r} is not allowed; allowed:"
                f" {', '.join(_TIMESTAMPS)}"
            )
        plain = [field.name for field in schema.fields if timestamps != cls.timestamps and _is_ntz(field.dataType)]
        if plain:
            raise OptionError(
                f"option {_TIMESTAMPS_CONF} = {timestamps!r} is not supported beside column {plain[0]}, whose type has"
                f" timestamps without time zone; leave the option out, or cast the column to timestamp",
                code="MIXEDMODE_OPTION_CONFLICT",
            )
        codec = None if named is None else _CODECS[given[named].lower()]
        return cls(codec, timestamps, _file_rows(given.get(_ROWS, "0")))

    def in_session(self, codec: str | None) -> ParquetForm:
        """The same with the codec of a session, where none was told and Arrow can write it."""
        return self if self.codec is not None else replace(self, codec=_CODECS.get((codec or _FAST).lower(), _FAST))

    @property
    def arguments(self) -> dict[str, Any]:
        """Of Arrow's writer."""
        return {"compression": self.codec or _FAST, **_TIMESTAMPS[self.timestamps]}


def _file_rows(text: str) -> int | None:
    """As in Spark, a number that is not positive is no limit."""
    try:
        rows = int(text)
    except ValueError as error:
        raise OptionError(
            f"option {_ROWS} = {text!r} is not allowed; allowed: whole numbers, 0 for no limit"
        ) from error
    return rows if rows > 0 else None


def _is_ntz(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_is_ntz(field.dataType) for field in data_type.fields)
    if isinstance(data_type, MapType):
        return _is_ntz(data_type.keyType) or _is_ntz(data_type.valueType)
    if isinstance(data_type, ArrayType):
        return _is_ntz(data_type.elementType)
    return isinstance(data_type, TimestampNTZType)
