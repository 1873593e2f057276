"""Which arguments of aggregates go to Spark as text, which as expressions, and what their state is recognised by."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from typing import Any

import pytest
from mixedmode.errors import PlanError, StateSchemaError
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.operators.aggregate.operator import AggregateOperator
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from session_options import session_options

SCHEMA = "k string, v int, f float, s string, st struct<a:int,b:string>, ts timestamp, l array<int>, `null` int"
EPOCH = EpochSpec(1, "sorted", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


def plan(frame: DataFrame, *exprs: Column) -> AggregateOperator:
    return plan_aggregate(frame, ["k"], list(exprs), event_time=None, output_mode=None, uid="agg")


def sql(frame: DataFrame, *exprs: Column) -> list[str]:
    """What the state of the partial aggregates is recognised by."""
    return list(plan(frame, *exprs).partials.columns.values())


def test_an_argument_that_its_text_describes_is_recognised_by_it(frame: DataFrame) -> None:
    """Quotes, casts, floats, arrays of literals, struct fields, conditions, and a column named as a keyword."""
    texts = sql(
        frame,
        F.sum("v"),
        F.count("*"),
        F.max("null"),
        F.expr("sum(v) FILTER (WHERE s = 'x')"),
        F.max("st.a"),
        F.sum(F.when(F.col("s") == "it's \\n", 1)),
        F.max(F.col("f") + F.lit(1.5).cast("float")).alias("float"),
        F.max(F.array(F.lit(1), F.lit(2))).alias("array"),
        F.max(F.struct("v", "s")).alias("struct"),
        F.count_if(F.col("ts") >= F.lit(datetime(2024, 1, 1, 3, tzinfo=timezone.utc))),
    )
    assert texts[:4] == ["sum(v)", "count(1)", "max(null)", "sum(v) FILTER (WHERE (s = 'x'))"]
    assert not [text for text in texts if "/*" in text]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: F.max(F.struct(F.col("v").alias("x"))), "max(struct(v) /* struct(x, 'v) */)"),
        (
            lambda: F.max(F.col("st").cast("struct<x:int,y:string>")),
            "max(st /* cast('st as struct<x:int,y:string>) */)",
        ),
        (lambda: F.max(F.lit("${env:HOME}")), "max('${env:HOME}' /* ${env:HOME} */)"),
        (
            lambda: F.max(F.element_at(F.transform("l", lambda x: x + F.col("v")), 1)),
            "max(element_at(transform(l, lambdafunction((namedlambdavariable() + v), namedlambdavariable())), 1)"
            " /* element_at(transform('l, lambdafunction((#0 + 'v), #0, false)), 1, None, true) */)",
        ),
    ],
)
def test_what_a_text_leaves_out_is_added_to_it(frame: DataFrame, make: Any, text: str) -> None:
    """Names of struct fields, casts to nested types, literals that are substituted, lambdas."""
    assert sql(frame, make()) == [text]


def test_arguments_with_one_text_are_told_apart(frame: DataFrame) -> None:
    """Each gets its own partial column, and equal ones share one."""
    one, two = F.struct(F.col("v").alias("one")), F.struct(F.col("v").alias("two"))
    given = [F.max(one), F.max(two).alias("b"), F.max(F.struct("v")).alias("c"), F.max(one).alias("d")]
    operator = plan(frame, *given)
    assert len(operator.partials.columns) == 3
    types = [field.dataType.simpleString() for field in operator.prepare(frame, EPOCH).schema.fields[1:4]]
    assert types == ["struct<one:int>", "struct<two:int>", "struct<v:int>"]


def test_another_option_is_another_state(frame: DataFrame) -> None:
    """Neither text nor type shows the separator of to_csv; the same job described again has the same state."""
    one, two, again = (plan(frame, F.max(F.to_csv(F.struct("v", "s"), {"sep": sep}))) for sep in "|;|")
    with pytest.raises(StateSchemaError):
        two.registry.evolve(one.registry)
    again.registry.evolve(one.registry)
    assert again.registry.to_json() == one.registry.to_json()


def test_a_lambda_has_one_name_in_every_run(frame: DataFrame) -> None:
    """Spark numbers variables anew each time."""
    described = [plan(frame, F.max(F.filter("l", lambda x: x > 1))).registry.to_json() for _ in range(2)]
    assert described[0] == described[1]


def test_long_structs_are_recognised_as_a_whole(frame: DataFrame) -> None:
    """Spark shows the first 25 parts of an expression unless it is told otherwise, and is left as it was."""
    before = frame.sparkSession.conf.get("spark.sql.debug.maxToStringFields")
    names = [f"f{place}" for place in range(40)]
    [text] = sql(frame, F.max(F.struct(*[F.col("v").alias(name) for name in names])))
    assert all(f"{name}, 'v" in text for name in names)
    assert frame.sparkSession.conf.get("spark.sql.debug.maxToStringFields") == before


def test_the_texts_that_spark_does_not_take_are_not_logged(
    frame: DataFrame, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """PySpark logs errors in SQL, with a stack, before it raises them; the user's own errors still are."""
    filters = list(logging.getLogger("SQLQueryContextLogger").filters)
    plan(frame, F.max(F.filter("l", lambda x: x > 1)))
    assert "lambdafunction" not in capfd.readouterr().err
    assert logging.getLogger("SQLQueryContextLogger").filters == filters


def test_only_columns_of_the_input_can_be_arguments(frame: DataFrame) -> None:
    """A window inside an argument drops rows from the whole aggregation."""
    with pytest.raises(PlanError, match="window is no column of the input"):
        plan(frame, F.max(F.window("ts", "1 hour")["end"]))


@pytest.mark.parametrize("text", ["sum(v + (SELECT 1))", "sum(v) FILTER (WHERE EXISTS (SELECT 1))"])
def test_subqueries_are_refused(frame: DataFrame, text: str) -> None:
    """Each epoch would look the value up again, and no text tells one from another."""
    with pytest.raises(PlanError, match="contains a subquery; compute it with withColumn"):
        plan(frame, F.expr(text))


def test_structs_with_two_fields_of_one_name_cross_into_python_with_other_names(frame: DataFrame) -> None:
    """Arrow has no such structs; the names that Spark gives are kept for users."""
    operator = plan(frame, F.max(F.struct("v", "v")).alias("m"))
    assert operator.output_schema["m"].dataType.names == ["v", "v_2"]
    assert operator.group_columns is not None
    assert operator.group_columns.known is not None
    assert operator.group_columns.known["m"].dataType.names == ["v", "v"]


@pytest.mark.parametrize("patterns", ["false", "true"])
def test_a_column_is_a_column_whatever_its_name(spark: SparkSession, patterns: str) -> None:
    """Keywords, functions, variables, numbers, comments; also where names in SQL are patterns."""
    option = "spark.sql.parser.quotedRegexColumnNames"
    names = [
        "null",
        "true",
        "current_date",
        "end",
        "${spark.app.name}",
        "1",
        "-- x",
        "a.b",
        "it`s",
        "x\ny",
        "{a}",
        "e*d",
    ]
    rows = spark.range(1).select(*[F.lit(place).alias(name) for place, name in enumerate(names)], F.lit("a").alias("k"))
    # Spark itself takes the one with a variable only by a star.
    columns = [F.col("`" + name.replace("`", "``") + "`") for name in names if name[0] != "$"]
    with session_options(spark, {option: patterns}):
        found = plan(rows, F.max(F.struct("*")).alias("all"), *map(F.max, columns)).prepare(rows, EPOCH).collect()
    assert found[0][1] == rows.collect()[0]
    assert found[0][2:13] == (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11)
