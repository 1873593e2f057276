"""Holds the session's settings for pandas frames."""

from __future__ import annotations

from dataclasses import dataclass

#: As many rows or bytes as there are, in PySpark's words.
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class FrameSettings:
    """What the session says of pandas, as of the job's start; PySpark reads the same confs."""

    #: Frames show timestamps in this zone, without it.
    time_zone: str
    #: A frame has no more rows than that.
    max_rows: int = 10_000
    #: A frame that has as many bytes, by the average size of rows, gets no further row.
    max_bytes: int = NO_LIMIT
    #: Columns of frames that handlers yield are found by name, if their names are strings; False: by position.
    by_name: bool = True
    #: Values that a column's type cannot hold exactly are an error.
    safe: bool = False
    #: Integers may become decimals of any precision.
    int_to_decimal: bool = False
    #: Integer columns have pandas' own types, which know nulls.
    int_extension_dtypes: bool = False
    #: A frame with columns that the output schema does not have is an error; False: they are left out.
    exact_columns: bool = False
