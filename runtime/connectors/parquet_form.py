"""The form of Parquet files: how they are compressed, and how they hold timestamps; by the names of Spark's options."""

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
#: By Spark's name what Arrow's writer is told.
_TIMESTAMPS: dict[str, dict[str, Any]] = {
    "TIMESTAMP_MICROS": {"coerce_timestamps": "us"},
    "TIMESTAMP_MILLIS": {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
    "INT96": {"use_deprecated_int96_timestamps": True},
}
#: What a writer may be told of its files, in the order in which Spark looks for the codec; by lower case.
PARQUET_OPTIONS = {name.lower(): name for name in ("compression", "parquet.compression", CODEC_CONF, _TIMESTAMPS_CONF)}


@dataclass(frozen=True)
class ParquetForm:
    """How Parquet files are written; the defaults are those of files that nobody but us reads."""

    #: None: that of the session in which they are written.
    codec: str | None = _FAST
    timestamps: str = "TIMESTAMP_MICROS"

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> ParquetForm:
        """What a writer was told; the names may be in any case.

        Raises:
            OptionError: a value is none that can be written.
        """
        given = {
            PARQUET_OPTIONS[name.lower()]: value for name, value in options.items() if name.lower() in PARQUET_OPTIONS
        }
        named = next((name for name in PARQUET_OPTIONS.values() if name in given and name != _TIMESTAMPS_CONF), None)
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
        return cls(None if named is None else _CODECS[given[named].lower()], timestamps)

    def in_session(self, codec: str | None) -> ParquetForm:
        """The same with the codec of a session, where none was told and Arrow can write it."""
        return self if self.codec is not None else replace(self, codec=_CODECS.get((codec or _FAST).lower(), _FAST))

    @property
    def arguments(self) -> dict[str, Any]:
        """Of Arrow's writer."""
        return {"compression": self.codec, **_TIMESTAMPS[self.timestamps]}


def _is_ntz(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_is_ntz(field.dataType) for field in data_type.fields)
    if isinstance(data_type, MapType):
        return _is_ntz(data_type.keyType) or _is_ntz(data_type.valueType)
    if isinstance(data_type, ArrayType):
        return _is_ntz(data_type.elementType)
    return isinstance(data_type, TimestampNTZType)
