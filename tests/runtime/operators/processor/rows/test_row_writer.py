"""Rows that a processor yields become what PySpark itself would make of them, or errors that name their key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import OutputSchemaError
from mixedmode.runtime.catalyst.types.arrow_types import arrow_schema
from mixedmode.runtime.operators.processor.rows.row_reader import RowReader
from mixedmode.runtime.operators.processor.rows.row_writer import RowBuffer, RowWriter
from pyspark.sql import Row
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from row_support import TYPES, same


def written_of(schema: StructType, rows: Sequence[Any], keys: Sequence[Any] = ()) -> pa.RecordBatch:
    """The record batch of the rows, each of which belongs to a key of its own."""
    written: list[pa.RecordBatch] = []
    buffer = RowBuffer(schema, written.append)
    for index, row in enumerate(rows):
        buffer.extend([row], keys[index] if keys else index)
    buffer.flush()
    (batch,) = written
    return batch


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_writes_as_pyspark_does(name: str) -> None:
    """For every type, the writer's column equals what PySpark's own converter makes of the same rows."""
    data_type, values = TYPES[name]
    schema = StructType([StructField("v", data_type)])

    @given(st.lists(st.tuples(st.none() | values), min_size=1, max_size=6))
    def check(rows: list[tuple[Any]]) -> None:
        written = written_of(schema, rows)
        expected = LocalDataToArrowConversion.convert(rows, schema, False).cast(arrow_schema(schema)).combine_chunks()
        reader = RowReader(schema)
        assert written.schema == arrow_schema(schema)
        assert all(
            same(one, other)
            for one, other in zip(reader.rows(written), reader.rows(expected.to_batches()[0]), strict=True)
        )

    check()


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
        written_of(OUTPUT, [("fine", 1), row], keys)
    message = str(caught.value)
    assert f"field '{field}'" in message and value in message and "('second',)" in message


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (LongType(), Decimal("1.5")),
        (IntegerType(), 1.5),
        (ShortType(), np.float32(2.5)),
        (DateType(), 1.5),
        (ArrayType(LongType()), [1, Decimal("1.5")]),
        (MapType(LongType(), StringType()), {Decimal("1.5"): "a"}),
        (MapType(StringType(), LongType()), {"a": Decimal("1.5")}),
        (StructType([StructField("n", LongType())]), (1.5,)),
        (StructType([StructField("n", LongType())]), {"n": 1.5}),
    ],
)
def test_a_number_is_not_cut_off(data_type: Any, value: Any) -> None:
    """A fraction in a column of whole numbers is an error with field, value and key; stock stores another number."""
    schema = StructType([StructField("total", data_type)])
    with pytest.raises(OutputSchemaError, match="field 'total' of the output schema") as caught:
        written_of(schema, [(None,), (value,)], [("first",), ("second",)])
    assert repr(value) in str(caught.value) and "('second',)" in str(caught.value)


def test_whole_numbers_of_other_types_are_taken() -> None:
    """As by stock Spark: a float or a decimal without a fraction, and numpy's numbers."""
    values = [Decimal("2.00"), 3.0, np.int64(4), np.float64(5), None]
    batch = written_of(StructType([StructField("n", LongType())]), [(value,) for value in values])
    assert batch.column(0).to_pylist() == [2, 3, 4, 5, None]


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
    batch = written_of(schema, [(swapped, [swapped], {"x": swapped})])
    inner = {"a": 1, "b": 2}
    assert [column[0].as_py() for column in batch.columns] == [inner, [inner], [("x", inner)]]
    with pytest.raises(OutputSchemaError, match="field 's'"):
        written_of(schema, [(Row(a=1, c=2), [], {})])


def test_lists_and_dicts_are_taken_for_rows() -> None:
    """A list counts as a tuple and a dict is taken by field name."""
    writer = RowWriter(OUTPUT)
    assert writer.check(["a", 1], ()) == ("a", 1)
    assert writer.check({"total": 1, "name": "a"}, ()) == ("a", 1)


def test_decimal_beyond_the_scale_does_not_pass_silently() -> None:
    """A decimal that needs more digits than the type has is refused, not cut."""
    schema = StructType([StructField("price", DecimalType(5, 2))])
    with pytest.raises(OutputSchemaError, match="field 'price'"):
        written_of(schema, [(Decimal("123456.78"),)])


# -- many rows at once ---------------------------------------------------------------------------------------------


class Batches:
    """Takes what a buffer writes."""

    def __init__(self, schema: StructType) -> None:
        self.written: list[pa.RecordBatch] = []
        self.buffer = RowBuffer(schema, self.written.append)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        self.buffer.flush()
        return [tuple(row.values()) for batch in self.written for row in batch.to_pylist()]


class Pair(NamedTuple):
    name: str
    total: int


Person = Row("total", "name")
FORMS = {
    "tuples": [("a", 1), ("b", 2)],
    "named tuples": [Pair("a", 1), Pair("b", 2)],
    "rows": [Row(name="a", total=1), Row(name="b", total=2)],
    "rows in another order": [Person(1, "a"), Person(2, "b")],
    "rows without names": [Row("a", 1), Row("b", 2)],
    "lists": [["a", 1], ["b", 2]],
    "dicts": [{"total": 1, "name": "a"}, {"total": 2, "name": "b"}],
    "a mixture": [Row(name="a", total=1), ("b", 2)],
    "two orders": [Row(name="a", total=1), Person(2, "b")],
    "rows of an input": list(
        RowReader(OUTPUT).rows(pa.RecordBatch.from_pylist([{"name": "a", "total": 1}, {"name": "b", "total": 2}]))
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_any_form_make_the_same_batch(form: str) -> None:
    """Tuples, rows, lists and dicts, alone or mixed, come out as rows of the schema."""
    batches = Batches(OUTPUT)
    batches.buffer.extend(FORMS[form], ("k",))
    assert batches.rows == [("a", 1), ("b", 2)]


def test_names_that_all_rows_leave_out_are_null() -> None:
    """A batch of rows without some nullable field has nulls there."""
    batches = Batches(OUTPUT)
    batches.buffer.extend([Row(total=1), Row(total=2)], ("k",))
    assert batches.rows == [(None, 1), (None, 2)]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("c",), "yielded 1 values"),
        (Row(name="c", sum=3), "no field 'sum'"),
        (Row(name="c", total="x"), "field 'total'"),
        (Pair("c", None), "field 'total'"),  # type: ignore[arg-type]
    ],
)
def test_error_in_a_batch_names_the_key_of_its_row(row: Any, told: str) -> None:
    """However many keys a batch holds, an error names the one whose handler yielded the row."""
    batches = Batches(OUTPUT)

    def run() -> None:
        for number in range(100):
            batches.buffer.extend([("a", 1)] * (number % 3), (f"k{number}",))
            if number == 70:
                batches.buffer.extend([("b", 2), row], ("culprit",))
        batches.buffer.flush()

    with pytest.raises(OutputSchemaError, match=told) as caught:
        run()
    assert "for key ('culprit',)" in str(caught.value)


def test_a_key_that_yields_without_end_is_written_in_pieces() -> None:
    """The rows of one key reach the output while its handler still yields."""
    batches = Batches(OUTPUT)

    def endless() -> Iterator[tuple[str, int]]:
        for number in range(25_000):
            assert number - sum(batch.num_rows for batch in batches.written) <= 10_000
            yield "a", number

    batches.buffer.extend(endless(), ("k",))
    assert [total for _, total in batches.rows] == list(range(25_000))


def test_a_yielded_row_is_what_it_was_when_it_was_yielded() -> None:
    """A list, dict or row that the handler goes on to change keeps the values that it was yielded with."""
    pair = StructType([StructField("a", ArrayType(IntegerType()))])
    fields = {"l": ArrayType(IntegerType()), "m": MapType(StringType(), IntegerType()), "s": pair, "b": BinaryType()}
    batches = Batches(StructType([StructField(name, data_type) for name, data_type in fields.items()]))

    def handler() -> Iterator[Row]:
        numbers: list[int] = []
        lookup: dict[str, int] = {}
        data = bytearray()
        for number in range(3):
            numbers.append(number)
            lookup["x"] = number
            data.append(number)
            yield Row(l=numbers, m=lookup, s=Row(a=numbers), b=data)

    batches.buffer.extend(handler(), ("k",))
    assert batches.rows == [
        (list(range(n + 1)), [("x", n)], {"a": list(range(n + 1))}, bytes(range(n + 1))) for n in range(3)
    ]


def test_a_list_that_is_yielded_again_and_again_is_taken_each_time() -> None:
    """A handler may fill one list over and over and yield it as its row."""
    batches = Batches(OUTPUT)

    def handler() -> Iterator[list[Any]]:
        row: list[Any] = ["a", 0]
        for number in range(3):
            row[1] = number
            yield row

    batches.buffer.extend(handler(), ("k",))
    assert batches.rows == [("a", 0), ("a", 1), ("a", 2)]


def test_aware_and_naive_moments_are_instants() -> None:
    """A naive datetime is local time, an aware one its instant; what is no datetime is refused."""
    schema = StructType([StructField("at", TimestampType())])
    naive = datetime(2024, 7, 1, 12)
    aware = naive.replace(tzinfo=timezone(timedelta(hours=5)))
    batch = written_of(schema, [(naive,), (aware,), (None,)])
    assert batch.column(0).to_pylist() == [naive.astimezone(timezone.utc), aware.astimezone(timezone.utc), None]
    with pytest.raises(OutputSchemaError, match="field 'at'"):
        written_of(schema, [(1_700_000_000,)])
