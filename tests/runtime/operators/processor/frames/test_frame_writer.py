"""pandas frames that handlers yield become output rows as PySpark makes them, or an error that says whose and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import OutputSchemaError
from mixedmode.runtime.operators.processor.frames.frame_settings import FrameSettings
from mixedmode.runtime.operators.processor.frames.frame_writer import FrameBuffer
from pyspark.sql import Row
from pyspark.sql.types import StructType

SETTINGS = FrameSettings("America/New_York")


def written(schema: str, *frames: Any, settings: FrameSettings = SETTINGS) -> list[tuple[Any, ...]]:
    """The rows that come of frames of different keys."""
    batches: list[pa.RecordBatch] = []
    buffer = FrameBuffer(ddl(schema), batches.append, settings)
    for number, frame in enumerate(frames):
        buffer.extend(iter([frame]), (number,))
    buffer.flush()
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def ddl(schema: str) -> StructType:
    """A schema of plain columns, without a JVM to parse it."""
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        DoubleType,
        IntegerType,
        LongType,
        MapType,
        StringType,
        StructField,
        TimestampType,
    )

    types = {
        "int": IntegerType(),
        "long": LongType(),
        "double": DoubleType(),
        "string": StringType(),
        "timestamp": TimestampType(),
        "decimal": DecimalType(10, 2),
        "longs": ArrayType(LongType()),
        "map": MapType(StringType(), LongType()),
        "struct": StructType([StructField("a", LongType()), StructField("b", StringType())]),
    }
    fields = [column.split() for column in schema.split(", ")]
    return StructType([StructField(name, types[kind], "!" not in rest) for name, kind, *rest in fields])


numbers = st.one_of(st.integers(-(2**31), 2**31 - 1), st.none(), st.floats(-1e6, 1e6))
columns_of_numbers = st.lists(numbers, min_size=1, max_size=4)


@given(st.lists(st.tuples(columns_of_numbers, st.sampled_from([None, "object", "float64", "Float64"])), max_size=5))
def test_many_frames_become_what_pyspark_makes_of_each(parts: list[tuple[list[Any], str | None]]) -> None:
    """Whatever their dtypes: joined or not, a row is the same."""
    conversion = pytest.importorskip("pyspark.sql.conversion")
    if not hasattr(conversion, "PandasToArrowConversion"):
        pytest.skip("this version of PySpark has the conversion elsewhere")
    schema = ddl("n int, x double")
    frames = [pd.DataFrame({"n": pd.Series(n, dtype=dtype), "x": pd.Series(n, dtype=dtype)}) for n, dtype in parts]
    expected = [
        row
        for frame in frames
        for row in conversion.PandasToArrowConversion.convert(
            frame, schema, timezone="UTC", safecheck=False, arrow_cast=True, assign_cols_by_name=True
        ).to_pylist()
    ]
    assert written("n int, x double", *frames) == [tuple(row.values()) for row in expected]


def test_columns_go_by_their_names() -> None:
    """In any order; what the schema does not have is left out, as in PySpark, unless the API checks their number."""
    frame = pd.DataFrame({"more": [0], "n": [1], "s": ["x"]})
    assert written("s string, n long", frame) == [("x", 1)]
    with pytest.raises(OutputSchemaError, match=r"another column 'more' for key \(0,\).*struct<s:string,n:bigint>"):
        written("s string, n long", frame, settings=FrameSettings("UTC", exact_columns=True))


def test_columns_without_string_names_go_by_position() -> None:
    """So do all, if the session says so."""
    assert written("s string, n long", pd.DataFrame([["x", 1]])) == [("x", 1)]
    swapped = pd.DataFrame({"n": ["x"], "s": [1]})
    assert written("s string, n long", swapped, settings=FrameSettings("UTC", by_name=False)) == [("x", 1)]
    with pytest.raises(OutputSchemaError, match=r"3 columns for key \(0,\).*2 fields, which are taken by position"):
        written("s string, n long", pd.DataFrame([["x", 1, 2]]))


def test_types_are_cast_as_pyspark_casts_them() -> None:
    """NaN is null where a number cannot be one, floats lose their fraction, dtypes of pandas count as their values."""
    frame = pd.DataFrame(
        {
            "n": [1.0, np.nan],
            "d": [Decimal("1.50"), None],
            "s": pd.Categorical(["x", None]),
            "a": [[1, 2], np.array([3])],
            "m": [{"k": 1}, None],
            "r": [{"a": 1, "b": "x"}, Row(a=2, b=None)],
        }
    )
    assert written("n int, d decimal, s string, a longs, m map, r struct", frame) == [
        (1, Decimal("1.50"), "x", [1, 2], [("k", 1)], {"a": 1, "b": "x"}),
        (None, None, None, [3], None, {"a": 2, "b": None}),
    ]
    assert written("n long", pd.DataFrame({"n": pd.array([2**62, None], dtype="Int64")})) == [(2**62,), (None,)]
    assert written("n int", pd.DataFrame({"n": [1.5]})) == [(1,)]
    with pytest.raises(OutputSchemaError, match=r"field 'n' of the output schema is int, but .* yielded 1.5 \(float\)"):
        written("n int", pd.DataFrame({"n": [1.5]}), settings=FrameSettings("UTC", safe=True))


def test_naive_timestamps_are_in_the_sessions_zone() -> None:
    at = pd.DataFrame({"at": pd.to_datetime(["2024-07-01 08:00", None])})
    aware = pd.DataFrame({"at": pd.to_datetime(["2024-07-01 08:00"]).tz_localize("UTC")})
    (first, second, third) = written("at timestamp", at, aware)
    assert (first[0].hour, second[0], third[0].hour) == (12, None, 8)


def test_what_was_yielded_counts_not_what_became_of_it() -> None:
    """A handler may go on with its frame, and with the lists in it."""
    frame = pd.DataFrame({"n": [1], "a": [[1]]})

    def handler() -> Iterator[pd.DataFrame]:
        yield frame
        frame.loc[0, "n"] = 2
        frame["a"][0].append(2)
        yield frame

    batches: list[pa.RecordBatch] = []
    buffer = FrameBuffer(ddl("n long, a longs"), batches.append, SETTINGS)
    buffer.extend(handler(), ())
    buffer.flush()
    assert batches[0].to_pylist() == [{"n": 1, "a": [1]}, {"n": 2, "a": [1, 2]}]


def test_no_rows_are_no_rows() -> None:
    assert written("n long", pd.DataFrame(), pd.DataFrame({"n": []}), pd.DataFrame({"n": [1]})) == [(1,)]


def test_large_outputs_are_written_as_they_come() -> None:
    """Not kept until the end of the shard."""
    batches: list[pa.RecordBatch] = []
    buffer = FrameBuffer(ddl("n long"), batches.append, SETTINGS)
    buffer.extend((pd.DataFrame({"n": range(4_000)}) for _ in range(7)), ())
    assert [batch.num_rows for batch in batches] == [12_000, 12_000]


def yields(frame: Any) -> Iterator[Any]:
    yield pd.DataFrame({"n": [1], "s": ["x"]})
    yield frame


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame({"n": [1]}),
            "no column 's' for key ('k',): its columns are 'n', the output schema is",
        ),
        (
            pd.DataFrame([[1, "x", "x"]], columns=["n", "s", "s"]),
            "more than one column 's' for key ('k',)",
        ),
        (pd.DataFrame(index=[0]), "a frame with 0 columns for key ('k',)"),
        (
            pd.DataFrame({"n": [1, "x"], "s": ["a", "b"]}),
            "field 'n' of the output schema is bigint, but the processor yielded 'x' (str) in a column of dtype object"
            " for key ('k',)",
        ),
        (
            pd.DataFrame({"n": [1], "s": [5]}),
            "field 's' of the output schema is string, but the processor yielded 5 (int) in a column of dtype int64",
        ),
        (Row(n=1, s="x"), "yielded Row(n=1, s='x') (Row) for key ('k',); yield pandas DataFrames that fit the output"),
        ("n", "the processor yielded 'n' (str) for key ('k',); yield pandas DataFrames"),
    ],
)
def test_a_misfit_names_the_key_the_line_and_what_was_expected(frame: Any, message: str) -> None:
    buffer = FrameBuffer(ddl("n long, s string"), lambda batch: None, SETTINGS)
    line = yields.__code__.co_firstlineno + 2

    def take() -> None:
        buffer.extend(yields(frame), ("k",))
        buffer.extend(yields(pd.DataFrame({"n": [1], "s": ["x"]})), ("other",))
        buffer.flush()

    with pytest.raises(OutputSchemaError, match=re.escape(message)) as caught:
        take()
    assert f'File "{__file__}", line {line}, in yields: yield frame' in str(caught.value)


def test_nulls_where_there_can_be_none_are_refused() -> None:
    with pytest.raises(OutputSchemaError, match=r"field 'n' of the output schema is bigint not null.* for key \(1,\)"):
        written("n long !", pd.DataFrame({"n": [1]}), pd.DataFrame({"n": [None]}))


def test_a_frame_instead_of_an_iterator_of_frames_is_refused() -> None:
    buffer = FrameBuffer(ddl("n long"), lambda batch: None, SETTINGS)
    with pytest.raises(OutputSchemaError, match=r"returned a pandas DataFrame for key \('k',\); yield it, or return"):
        buffer.extend(pd.DataFrame({"n": [1]}), ("k",))


def test_moments_of_python_are_taken() -> None:
    """Object columns of datetimes, as a frame made of state values has them."""
    frame = pd.DataFrame({"at": pd.Series([datetime(2024, 1, 1, 12)], dtype=object)})
    assert written("at timestamp", frame)[0][0].hour == 17
