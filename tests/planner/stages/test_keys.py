"""Keys: what groupBy takes, and the columns that the runtime gets for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest
from mixedmode import PlanError
from mixedmode.planner.inputs.input_checks import check_inputs
from mixedmode.planner.inputs.inputs import Inputs
from mixedmode.planner.stages.keys import resolve_keys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.fixture(scope="module")
def inputs(spark: SparkSession) -> Inputs:
    frame = spark.sql(
        "select 'a' as k, 1 as v, 0.5D as x, float(1) as f, timestamp'2020-01-01 00:10:00' as ts, map('t', 1) as tags,"
        " named_struct('s', 'q', 'd', -0.0D) as st, array(-0.0D, double('NaN')) as ar, 5 as `odd.name`,"
        " parse_json('1') as variant"
    )
    return check_inputs(frame, None)


def made(cols: Iterable[Any]) -> list[Any]:
    """Columns cannot be made before there is a session, so parameters hold functions that make them."""
    return [col() if callable(col) else col for col in cols]


def columns_of(inputs: Inputs, *cols: Any) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
    """Labels of the keys, their columns, and the columns added to the input."""
    keys = resolve_keys(inputs, made(cols))
    columns = keys.as_columns(inputs)
    assert columns.schema.fieldNames() == list(keys.labels)
    return keys.labels, columns.names, columns.inputs.template.columns[len(inputs.template.columns) :]


@pytest.mark.parametrize("col", ["v", "`v`", lambda: F.col("v"), 2])
def test_a_plain_column_is_used_as_it_is(inputs: Inputs, col: Any) -> None:
    """By name, quoted, as a column, or by ordinal: nothing is added."""
    assert columns_of(inputs, "k", col) == (("k", "v"), ("k", "v"), [])


@pytest.mark.parametrize("col", ["V", "`V`", lambda: F.col("V")])
def test_a_key_is_called_as_it_is_written(inputs: Inputs, col: Any) -> None:
    """A name in another case is the same column under the name that the user gave it, as in Spark."""
    labels, columns, added = columns_of(inputs, "k", col)
    assert (labels, columns, added) == (("k", "V"), ("k", "v"), [])
    assert inputs.template.groupBy(*made(("k", col))).count().columns == ["k", "V", "count"]


def test_a_column_of_the_frame_itself_is_used_as_it_is(inputs: Inputs) -> None:
    """``history['v']`` is the same column."""
    assert columns_of(inputs, inputs.template["v"]) == (("v",), ("v",), [])


def test_a_name_with_a_dot_is_a_column_if_there_is_one(inputs: Inputs) -> None:
    """Without backticks too, where no column ``odd`` makes it a path."""
    assert columns_of(inputs, "odd.name") == (("odd.name",), ("odd.name",), [])


def test_a_path_into_a_struct_goes_before_a_column_of_the_whole_name(spark: SparkSession) -> None:
    """As in Spark, which reads ``st.s`` as a field; the column of that name needs backticks."""
    frame = spark.sql("select named_struct('s', 1) as st, 'x' as `st.s`")
    both = check_inputs(frame, None)
    for written, expected in (("st.s", "int"), ("`st.s`", "string")):
        keys = resolve_keys(both, [written])
        assert [field.dataType.simpleString() for field in keys.schema] == [expected]
        assert frame.groupBy(written).count().dtypes[0][1] == expected


def test_a_path_into_a_struct_is_computed(inputs: Inputs) -> None:
    """``st.s`` becomes a column of its own."""
    assert columns_of(inputs, "st.s") == (("s",), ("__key_0",), ["__key_0"])


def test_an_expression_becomes_a_column(inputs: Inputs) -> None:
    """The label is Spark's or the alias; other keys stay plain."""
    assert columns_of(inputs, F.upper("k"), "v", (F.col("v") % 2).alias("odd")) == (
        ("upper(k)", "v", "odd"),
        ("__key_0", "v", "__key_2"),
        ["__key_0", "__key_2"],
    )


def test_a_window_becomes_a_column(inputs: Inputs) -> None:
    """A row of a sliding window is there once for each window that holds it, as in Spark."""
    keys = resolve_keys(inputs, [F.window("ts", "1 hour", "30 minutes"), "k"])
    columns = keys.as_columns(inputs)

    assert keys.labels == ("window", "k")
    assert not keys.has_session
    starts = [row[0].start.strftime("%H:%M") for row in columns.inputs.template.select(columns.names[0]).collect()]
    assert sorted(starts) == ["00:00", "23:30"]


def test_a_session_window_is_recognised(inputs: Inputs) -> None:
    """Its extent depends on other rows, so only aggregates can take it."""
    assert resolve_keys(inputs, [F.session_window("ts", "5 minutes"), "k"]).has_session


def test_no_keys_are_one_group(inputs: Inputs) -> None:
    """``groupBy()`` has the empty key."""
    assert columns_of(inputs) == ((), (), [])


def test_floats_in_keys_are_normalised(spark: SparkSession) -> None:
    """One zero and one NaN, at any depth; nulls stay null, and the row's own column is left as it is."""
    frame = spark.sql(
        "select -0.0D as x, float('NaN') as f, named_struct('d', -0.0D) as st, array(-0.0D, null) as ar"
        " union all select null, null, null, null"
    )
    inputs = check_inputs(frame, None)
    keys = resolve_keys(inputs, ["x", "f", "st", "ar"]).as_columns(inputs)
    projected, names = keys.inputs, keys.names

    (x, f, st, ar), nulls = projected.template.select(*names).collect()
    assert math.copysign(1, x) == 1
    assert math.isnan(f)
    assert math.copysign(1, st.d) == 1
    assert math.copysign(1, ar[0]) == 1
    assert ar[1] is None
    assert list(nulls) == [None] * 4
    assert math.copysign(1, projected.template.first().x) == -1
    assert keys.schema.simpleString() == frame.schema.simpleString()
    assert [field.dataType for field in projected.template.select(*names).schema] == [
        field.dataType for field in keys.schema
    ]


@pytest.mark.parametrize(
    ("col", "problem"),
    [
        ("kk", "key column kk does not exist; did you mean k?"),
        ("st.nope", "groupBy: .*nope"),
        (lambda: F.col("nope") + 1, "groupBy: .*nope"),
        ("tags", "key column tags is of type map<string,int>, which cannot be a key"),
        (lambda: F.struct("tags").alias("t"), "map<string,int> has no order"),
        ("variant", "not an orderable data type"),
        (lambda: F.collate("k", "UTF8_LCASE"), "collation UTF8_LCASE makes different strings equal"),
        (lambda: F.lit(None).alias("n"), "void has no order"),
        (lambda: F.expr("INTERVAL '5' MONTH").alias("m"), "interval month cannot cross into Python"),
        (0, "ordinal 0 is out of range"),
        (99, "ordinal 99 is out of range"),
        (True, r"groupBy takes names, columns and ordinals, got True \(bool\)"),
        (1.5, r"got 1\.5 \(float\)"),
    ],
)
def test_what_cannot_be_a_key_is_refused(inputs: Inputs, col: Any, problem: str) -> None:
    """Missing columns, types without an order, and things that are no columns."""
    with pytest.raises(PlanError, match=problem):
        resolve_keys(inputs, made([col]))


def test_two_keys_of_one_name_are_refused(inputs: Inputs) -> None:
    """The output of an aggregate could not tell them apart."""
    with pytest.raises(PlanError, match="several keys named k"):
        resolve_keys(inputs, ["k", "v", "k"])
