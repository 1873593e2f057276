"""Each expression on the list gives what Spark gives, to the bit, or is not taken; ANSI on and off, in some zones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expression_support import ROWS, TYPES, bits, fields, session_settings, tables, taken
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mixedmode.runtime.catalyst.spark_expressions import class_name, items, without_alias
from mixedmode.runtime.catalyst.spark_plans import analyzed
from mixedmode.runtime.scan.expressions.translations import COLUMNS, TRANSLATIONS, translator
from mixedmode.runtime.scan.expressions.values import Batch, Value
from pyspark.sql import DataFrame, SparkSession


def value_of(frame: DataFrame, sql: str) -> Value:
    """An example, translated."""
    plan = analyzed(frame.selectExpr(f"{sql} AS x"))
    known = dict(fields())

    def column(attribute: Any) -> Value:
        name = str(attribute.name())
        return Value("column", TYPES[known[name]], (), (name,))

    assert class_name(plan) == "Project"
    return translator(column).value(without_alias(next(items(plan.projectList()))))


EXAMPLES = [sql for entry in TRANSLATIONS for sql in entry.examples]


def compared(spark: SparkSession, table: pa.Table, path: Path) -> dict[str, int]:
    """Compare all examples over a table with Spark; gives how many rows of each were compared."""
    rows = table.combine_chunks().to_batches()[0]
    pq.write_table(table, path)
    frame = spark.read.schema(COLUMNS).parquet(str(path))
    values, places = {}, {}
    for sql in EXAMPLES:
        values[sql] = value_of(frame, sql)
        places[sql] = taken(values[sql], rows)
    flags = {f"take{at}": pa.array([i in set(places[sql]) for i in range(ROWS)]) for at, sql in enumerate(EXAMPLES)}
    pq.write_table(pa.table({**{name: table[name] for name in table.column_names}, **flags}), path)
    schema = COLUMNS + "".join(f", {name} boolean" for name in flags)
    frame = spark.read.schema(schema).parquet(str(path)).coalesce(1)
    columns = [f"CASE WHEN take{at} THEN {sql} END AS x{at}" for at, sql in enumerate(EXAMPLES)]
    found = frame.selectExpr(*columns).toArrow()
    wrong = []
    for at, sql in enumerate(EXAMPLES):
        its = pa.array(places[sql], pa.int64())
        ours = Batch(rows.take(its)).of(values[sql])
        theirs = found.column(at).combine_chunks().take(its)
        if pa.types.is_timestamp(theirs.type):
            theirs = theirs.cast(values[sql].type)
        assert theirs.type == values[sql].type, f"{sql} is {values[sql].type} here and {theirs.type} in Spark"
        for row, one, other in zip(places[sql], bits(ours), bits(theirs), strict=True):
            same = one == other or (one is not None and other is not None and one != one and other != other)
            if not same:
                given_to = {name: bits(rows.column(name).slice(row, 1)) for name in values[sql].columns}
                wrong.append(f"{sql} is {one!r} here and {other!r} in Spark of {given_to}")
                break
    assert not wrong, "\n".join(wrong)
    return {sql: len(places[sql]) for sql in EXAMPLES}


#: Examples of which edges leave less than a tenth of the rows.
RARELY = {f"CAST(s AS {name})" for name in ("INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP")}
RARELY |= {"to_timestamp(s)", "split(s, '%')[1]"}


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_expressions_are_sparks_to_the_bit(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    """Generated rows, nasty values among them; most of the rows of each expression are taken."""

    tables_each = {"true": 2, "false": 1}

    # Without shrinking: rows are independent, and the message names one.
    @settings(
        max_examples=tables_each[ansi], suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None
    )
    @given(tables(), st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin"]))
    def run(table: pa.Table, zone: str) -> None:
        with session_settings(spark, spark__sql__ansi__enabled=ansi, spark__sql__session__timeZone=zone):
            counts = compared(spark, table, tmp_path / "a.parquet")
        rare = [sql for sql, count in counts.items() if count < (1 if sql in RARELY else ROWS // 10)]
        assert not rare, f"hardly a row was compared: {rare}"

    run()


def test_a_minute_begins_when_clocks_say_so(spark: SparkSession, tmp_path: Path) -> None:
    """Clocks have been apart by seconds, and the minute in which they were put right is left to Spark."""
    put_right_us = 63_593_070_000_000  # Monrovia's, by 44 minutes and 30 seconds
    times = [put_right_us + 7_000_000 * step for step in range(-30, 30)] + [None, -3_000_000_000_000_001, 1]
    rows = pa.table({"t": pa.array(times, TYPES["timestamp"])}).to_batches()[0]
    pq.write_table(pa.Table.from_batches([rows]), tmp_path / "a.parquet")
    for zone in ("America/Sao_Paulo", "Asia/Kolkata", "Africa/Monrovia"):
        with session_settings(spark, spark__sql__session__timeZone=zone):
            frame = spark.read.parquet(str(tmp_path / "a.parquet")).coalesce(1)
            value = value_of(frame, "date_trunc('minute', t)")
            theirs = frame.selectExpr("date_trunc('minute', t) AS x").toArrow()["x"].combine_chunks()
            places = taken(value, rows)
        its = pa.array(places)
        assert bits(Batch(rows.take(its)).of(value)) == bits(theirs.take(its)), zone
        assert len(places) > len(times) - 6
