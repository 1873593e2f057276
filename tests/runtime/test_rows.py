"""Rows in and out of a processor are what PySpark itself would make of them."""

from __future__ import annotations

import math
import pickle
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import OutputSchemaError
from mixedmode.runtime.rows import RowReader, RowWriter, arrow_schema
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

moments = st.datetimes(datetime(1, 1, 2), datetime(9998, 12, 30))
longs = st.integers(-(2**63), 2**63 - 1)

#: A type and values of it.
TYPES: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "boolean": (BooleanType(), st.booleans()),
    "byte": (ByteType(), st.integers(-(2**7), 2**7 - 1)),
    "short": (ShortType(), st.integers(-(2**15), 2**15 - 1)),
    "int": (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (LongType(), longs),
    "float": (FloatType(), st.floats(width=32)),
    "double": (DoubleType(), st.floats()),
    "string": (StringType(), st.text(st.characters(codec="utf-8"))),
    "binary": (BinaryType(), st.binary()),
    "decimal": (DecimalType(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    "date": (DateType(), st.dates(date(1, 1, 2))),
    "timestamp": (TimestampType(), moments),
    "timestamp_ntz": (TimestampNTZType(), moments),
    "interval": (DayTimeIntervalType(), st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000))),
    "array": (ArrayType(LongType()), st.lists(st.none() | longs, max_size=3)),
    "map": (MapType(StringType(), DoubleType()), st.dictionaries(st.text("ab", max_size=2), st.floats(), max_size=3)),
    "struct": (
        StructType([StructField("a", LongType()), StructField("b", ArrayType(DateType()))]),
        st.builds(lambda a, b: Row(a=a, b=b), st.none() | longs, st.lists(st.dates(date(1, 1, 2)), max_size=2)),
    ),
}


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals NaN and types count."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("name", TYPES)
def test_reads_as_pyspark_does(name: str) -> None:
    """For every type, the reader's rows equal those of PySpark's own converter, nulls included."""
    data_type, values = TYPES[name]
    schema = StructType([StructField("n", IntegerType()), StructField("v", data_type)])

    @given(st.lists(st.none() | values, min_size=1, max_size=6))
    def check(column: list[Any]) -> None:
        table = LocalDataToArrowConversion.convert(list(enumerate(column)), schema, False)
        expected = ArrowTableToRowsConversion.convert(table, schema)
        rows = RowReader(schema).rows(table.cast(arrow_schema(schema)).combine_chunks().to_batches()[0])
        assert all(same(row, other) for row, other in zip(rows, expected, strict=True))

    check()


@pytest.mark.parametrize("name", TYPES)
def test_writes_as_pyspark_does(name: str) -> None:
    """For every type, the writer's column equals what PySpark's own converter makes of the same rows."""
    data_type, values = TYPES[name]
    schema = StructType([StructField("v", data_type)])

    @given(st.lists(st.tuples(st.none() | values), min_size=1, max_size=6))
    def check(rows: list[tuple[Any]]) -> None:
        written = RowWriter(schema).batch(rows, lambda index: index)
        expected = LocalDataToArrowConversion.convert(rows, schema, False).cast(arrow_schema(schema)).combine_chunks()
        reader = RowReader(schema)
        assert written.schema == arrow_schema(schema)
        assert all(
            same(one, other)
            for one, other in zip(reader.rows(written), reader.rows(expected.to_batches()[0]), strict=True)
        )

    check()


def rows_of(**columns: list[Any]) -> list[Row]:
    batch = pa.RecordBatch.from_pydict({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return RowReader(StructType([StructField(name, LongType()) for name in columns])).rows(batch)


def test_rows_behave_like_pyspark_rows() -> None:
    """A row has fields by attribute, by name and by position, and equals, prints and pickles as a plain Row."""
    (row,) = rows_of(key=[1], total=[2])
    assert (row.key, row["total"], row[1], row[-1]) == (1, 2, 2, 2)
    assert row.asDict() == {"key": 1, "total": 2}
    assert "total" in row and "other" not in row
    assert row == Row(key=1, total=2)
    assert repr(row) == repr(Row(key=1, total=2))
    assert pickle.loads(pickle.dumps(row)) == row


def test_unknown_field_fails_as_in_pyspark() -> None:
    """A field that is not there raises what PySpark's Row raises."""
    (row,) = rows_of(key=[1])
    with pytest.raises(AttributeError):
        _ = row.other
    with pytest.raises(ValueError, match="other"):
        row["other"]


def test_field_named_like_a_tuple_method_keeps_the_method() -> None:
    """A column called ``count`` is reached by name; ``row.count`` stays the tuple's method, as in PySpark."""
    (row,) = rows_of(count=[7])
    assert row["count"] == 7
    assert row.count(7) == 1


def test_columns_are_found_by_name() -> None:
    """The order of the batch's columns, and columns that the schema does not name, do not matter."""
    batch = pa.RecordBatch.from_pydict({"extra": [0], "b": [2], "a": [1]})
    schema = StructType([StructField("a", LongType()), StructField("b", LongType())])
    assert RowReader(schema).rows(batch) == [Row(a=1, b=2)]


def test_schema_without_columns_keeps_the_number_of_rows() -> None:
    """Rows without a field are still rows."""
    batch = pa.RecordBatch.from_pydict({"x": [1, 2, 3]})
    assert RowReader(StructType([])).rows(batch) == [(), (), ()]


OUTPUT = StructType([StructField("name", StringType()), StructField("total", IntegerType(), nullable=False)])


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        (("a", "many"), "total", "'many' (str)"),
        (("a", 2**31), "total", "2147483648 (int)"),
        (("a", None), "total", "None (NoneType)"),
        ((1.5, 1), "name", "1.5 (float)"),
    ],
)
def test_misfit_names_field_value_and_key(row: tuple[Any, ...], field: str, value: str) -> None:
    """A value that does not fit is named with its field, its type and the key whose handler yielded it."""
    keys = [("first",), ("second",)]
    with pytest.raises(OutputSchemaError) as caught:
        RowWriter(OUTPUT).batch([("fine", 1), row], lambda index: keys[index])
    message = str(caught.value)
    assert f"field '{field}'" in message and value in message and "('second',)" in message


@pytest.mark.parametrize("row", [(1,), (1, 2, 3), []])
def test_wrong_width_names_key_and_schema(row: Any) -> None:
    """A row with too few or too many values is refused with the key, the values and the schema."""
    with pytest.raises(OutputSchemaError, match=r"\('k',\).*2 fields: struct<name:string,total:int>"):
        RowWriter(OUTPUT).check(row, ("k",))


@pytest.mark.parametrize("row", ["text", 5, None])
def test_what_is_no_row_is_refused(row: Any) -> None:
    """A yielded string or number is not taken for a row."""
    with pytest.raises(OutputSchemaError, match=r"for key \('k',\); yield a Row or tuple"):
        RowWriter(OUTPUT).check(row, ("k",))


def test_named_rows_go_by_their_names() -> None:
    """A Row with names may have them in any order and leave some out, as in stock transformWithState."""
    writer = RowWriter(OUTPUT)
    assert writer.check(Row(total=1, name="a"), ("k",)) == ("a", 1)
    assert writer.check(Row("total", "name")(1, "a"), ("k",)) == ("a", 1)
    assert writer.check(Row(total=1), ("k",)) == (None, 1)
    assert writer.check(Row("a", 1), ("k",)) == ("a", 1)


@pytest.mark.parametrize("row", [Row(name="a", sum=1), {"name": "a", "sum": 1}], ids=["row", "dict"])
def test_names_that_the_schema_lacks_are_refused(row: Any) -> None:
    """A name that is not in the output schema is an error that names it, not a lost value."""
    with pytest.raises(OutputSchemaError, match=r"no field 'sum': struct<name:string,total:int>"):
        RowWriter(OUTPUT).check(row, ("k",))


def test_nested_rows_go_by_their_names() -> None:
    """The fields of structs, also inside lists and maps, are found by name; an unknown name is a misfit."""
    pair = StructType([StructField("a", IntegerType()), StructField("b", IntegerType())])
    types = {"s": pair, "l": ArrayType(pair), "m": MapType(StringType(), pair)}
    schema = StructType([StructField(name, data_type) for name, data_type in types.items()])
    swapped = Row(b=2, a=1)
    batch = RowWriter(schema).batch([(swapped, [swapped], {"x": swapped})], lambda index: ("k",))
    inner = {"a": 1, "b": 2}
    assert [column[0].as_py() for column in batch.columns] == [inner, [inner], [("x", inner)]]
    with pytest.raises(OutputSchemaError, match="field 's'"):
        RowWriter(schema).batch([(Row(a=1, c=2), [], {})], lambda index: ("k",))


def test_lists_and_dicts_are_taken_for_rows() -> None:
    """A list counts as a tuple and a dict is taken by field name."""
    writer = RowWriter(OUTPUT)
    assert writer.check(["a", 1], ()) == ("a", 1)
    assert writer.check({"total": 1, "name": "a"}, ()) == ("a", 1)


def test_decimal_beyond_the_scale_does_not_pass_silently() -> None:
    """A decimal that needs more digits than the type has is refused, not cut."""
    schema = StructType([StructField("price", DecimalType(5, 2))])
    with pytest.raises(OutputSchemaError, match="field 'price'"):
        RowWriter(schema).batch([(Decimal("123456.78"),)], lambda index: ("k",))
