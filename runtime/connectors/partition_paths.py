"""Folders of a partitioned output: ``day=2024-01-31/shop=a%2Fb``, as Spark's own writer names them.

A value is its text as Spark casts it, with some characters escaped; null and the empty string have one name of their
own.  https://spark.apache.org/docs/latest/sql-data-sources-parquet.html#partition-discovery
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import OptionError, OutputSchemaError

#: Stands for null, and for the empty string.
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
#: Types whose text is the same here and in Spark.
PARTITION_TYPES = (
    *(StringType, ByteType, ShortType, IntegerType, LongType, BooleanType, DateType),
    *(TimestampType, TimestampNTZType, DecimalType),
)
_ESCAPED = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def escaped(text: str) -> str:
    """A column's name or a value as part of a path."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def session_zone(name: str) -> tzinfo:
    """The session's time zone.

    Raises:
        OptionError: Python does not know it.
    """
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        away = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(away if offset[1] == "+" else -away)
    try:
        return ZoneInfo({"Z": "UTC"}.get(name, name))
    except (KeyError, ValueError, OSError) as error:
        raise OptionError(
            f"partitionBy with a timestamp: spark.sql.session.timeZone = {name!r} is not known to Python; allowed: a"
            " name such as 'Europe/Paris', or an offset such as '+02:00'"
        ) from error


@dataclass(frozen=True)
class PartitionPaths:
    """Names the folders of rows.

    Args:
        columns: places of the partition columns among all columns, in the order of the folders.
        names: their names.
        types: Spark's types of them.
        time_zone: the session's, by which timestamps are written out.
    """

    columns: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    time_zone: str

    def folders(self, rows: pa.RecordBatch) -> tuple[list[str], np.ndarray]:
        """The folders that a batch has rows for, and for each row the place of its folder among them."""
        combined = np.zeros(rows.num_rows, dtype=np.int64)
        parts: list[list[str]] = []
        for place, name, data_type in zip(self.columns, self.names, self.types, strict=True):
            known, codes = self._parts(rows.column(place), name, data_type)
            # Numbered anew with each column, so that the product of their numbers stays small.
            found, combined = np.unique(combined * len(known) + codes, return_inverse=True)
            before = parts or [[]]
            parts = [[*before[code // len(known)], known[code % len(known)]] for code in found.tolist()]
        # Null and the empty string are one folder.
        folders: dict[str, int] = {}
        places = [folders.setdefault("/".join(part), len(folders)) for part in parts]
        return list(folders), np.array(places, dtype=np.int64)[combined]

    def _parts(self, column: pa.Array, name: str, data_type: DataType) -> tuple[list[str], np.ndarray]:
        """A column's part of the paths, and for each row which it is; each value is written out once."""
        coded = column.dictionary_encode(null_encoding="encode")
        write = self._writer(data_type)
        prefix = f"{escaped(name)}="
        known = []
        for place in range(len(coded.dictionary)):
            try:
                value = coded.dictionary[place].as_py()
                text = "" if value is None else write(value)
            except (OverflowError, ValueError) as error:  # Python has no such date
                raise OutputSchemaError(
                    f"partition column {name!r} has the value {coded.dictionary[place].value}"
                    f" ({data_type.simpleString()}, as stored: days or microseconds since 1970), which is outside of"
                    f" the years 1 to 9999 in time zone {self.time_zone}; partition by another column, or limit it"
                    " before"
                ) from error
            known.append(prefix + (escaped(text) if text else DEFAULT_PARTITION))
        return known, coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)

    def _writer(self, data_type: DataType) -> Callable[[Any], str]:
        if isinstance(data_type, BooleanType):
            return lambda value: "true" if value else "false"
        if isinstance(data_type, DateType):
            return lambda value: str(value.isoformat())
        if isinstance(data_type, DecimalType):
            return lambda value: format(value, "f")
        if isinstance(data_type, TimestampNTZType):
            return _moment
        if isinstance(data_type, TimestampType):
            zone = session_zone(self.time_zone)
            return lambda value: _moment(value.astimezone(zone))
        return str


def _moment(value: datetime) -> str:
    """A local time as Spark writes it: no more digits of the second than there are."""
    text = f"{value.year:04d}-{value.month:02d}-{value.day:02d} {value:%H:%M:%S}"
    return f"{text}.{value.microsecond:06d}".rstrip("0") if value.microsecond else text
