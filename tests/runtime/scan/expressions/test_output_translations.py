"""What tasks compute of the rows of a stage is what Spark gives, for all rows, and fails where Spark fails."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expression_support import ROWS, bits, fields, session_settings, tables
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mixedmode.runtime.scan.expressions.output_translations import OUTPUT_TRANSLATIONS
from mixedmode.runtime.scan.expressions.translations import COLUMNS, TRANSLATIONS
from mixedmode.runtime.scan.output_rows import OutputRows, output_rows
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

#: Examples that are taken behind a stage; of others Spark has to be asked.
OWN = [sql for entry in OUTPUT_TRANSLATIONS for sql in entry.examples]
EXAMPLES = [*OWN, *[sql for entry in TRANSLATIONS for sql in entry.examples if sql not in OWN]]
#: Times that clocks show with four digits, the first of which is not zero.
_FIRST_US, _LAST_US = -30_610_000_000_000_000, 253_402_300_799_999_999 - 86_400_000_000


def of_known_times(table: pa.Table) -> pa.Table:
    """The rows, with other times and dates in place of those that are left out: of years before 1000 and after 9999."""
    for at, name in enumerate(table.column_names):
        column = table[name].combine_chunks()
        if pa.types.is_timestamp(column.type):
            numbers = column.view(pa.int64()).to_pylist()
            kept = [one if one is None or _FIRST_US < one < _LAST_US else one % _LAST_US for one in numbers]
            table = table.set_column(at, name, pa.array(kept, pa.int64()).view(column.type))
    return table


def taken(spark: SparkSession, leaf: DataFrame) -> dict[str, OutputRows]:
    """The examples that are taken, with what computes them."""
    found = {}
    for sql in EXAMPLES:
        with nullcontext() if sql in OWN else suppress(NotTakenError):
            found[sql] = output_rows(leaf.selectExpr(f"{sql} AS x"), leaf)
    return found


def failing(computed: OutputRows, rows: pa.RecordBatch) -> list[int]:
    """The rows of which a value cannot be computed."""
    try:
        computed.of(rows)
    except NotTakenError:
        if rows.num_rows == 1:
            return [0]
        half = rows.num_rows // 2
        return [*failing(computed, rows.slice(0, half)), *(half + at for at in failing(computed, rows.slice(half)))]
    return []


def check_fails(frame: DataFrame, sql: str, row: int) -> None:
    """Spark has no value for a row either."""
    with pytest.raises(PySparkException):
        print(sql, frame.where(f"place = {row}").selectExpr(f"{sql} AS x").collect())


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_rows_are_made_as_spark_makes_them(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    """Generated rows; with ANSI off nothing fails, and with ANSI on what fails here fails in Spark."""
    checked: set[str] = set()
    tables_each = {"true": 2, "false": 1}  # with ANSI off there are fewer ways to go wrong

    @settings(
        max_examples=tables_each[ansi], suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None
    )
    @given(tables(), st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin"]))
    def run(table: pa.Table, zone: str) -> None:
        table = of_known_times(table)
        rows = table.combine_chunks().to_batches()[0]
        with session_settings(spark, spark__sql__ansi__enabled=ansi, spark__sql__session__timeZone=zone):
            leaf = spark.createDataFrame([], COLUMNS)
            computed = taken(spark, leaf)
            fails = {sql: failing(one, rows) for sql, one in computed.items()}
            places = pa.array(range(ROWS), pa.int32())
            flags = {
                f"take{at}": pa.array([row not in set(fails[sql]) for row in range(ROWS)])
                for at, sql in enumerate(computed)
            }
            columns = {name: table[name] for name in table.column_names}
            pq.write_table(pa.table({**columns, "place": places, **flags}), tmp_path / "a.parquet")
            schema = f"{COLUMNS}, place int" + "".join(f", {name} boolean" for name in flags)
            stored = spark.read.schema(schema).parquet(str(tmp_path / "a.parquet")).coalesce(1)
            # As struct(*) has to find the columns of the examples only.
            inner = stored.select(*[name for name, _ in fields()]).columns
            texts = [sql.replace("struct(*)", f"struct({', '.join(inner)})") for sql in computed]
            wanted = stored.selectExpr(*[f"CASE WHEN take{at} THEN {sql} END AS x{at}" for at, sql in enumerate(texts)])
            theirs = wanted.toArrow()
            wrong = []
            for at, (sql, one) in enumerate(computed.items()):
                kept = pa.array([row for row in range(ROWS) if row not in set(fails[sql])], pa.int64())
                ours = one.of(rows.take(kept)).column(0)
                its = theirs.column(at).combine_chunks().take(kept)
                its = its.cast(ours.type) if pa.types.is_timestamp(its.type) else its
                for row, mine, other in zip(kept.to_pylist(), bits(ours), bits(its), strict=True):
                    same = mine == other or (None not in (mine, other) and mine != mine and other != other)
                    if not same:
                        given_to = {name: bits(rows.column(name).slice(row, 1)) for name, _ in fields()}
                        wrong.append(f"{sql} is {mine!r} here and {other!r} in Spark of {given_to}")
                        break
                if fails[sql]:
                    if ansi == "false":
                        wrong.append(f"{sql} fails of {rows.slice(fails[sql][0], 1).to_pylist()}")
                    elif sql not in checked:
                        checked.add(sql)
                        check_fails(stored, sql, fails[sql][0])
            assert not wrong, "\n".join(wrong)

    run()
    assert bool(checked) == (ansi == "true"), "the numbers include some that overflow"


@pytest.mark.parametrize(
    "sql",
    ["upper(s)", "CAST(s AS INT)", "CAST(s AS DATE)", "floor(d)", "s RLIKE 'a+'", "instr(s, 'b')", "rand()", "now()"],
)
def test_what_may_be_left_to_spark_is_not_taken(spark: SparkSession, sql: str) -> None:
    leaf = spark.createDataFrame([], COLUMNS)
    with pytest.raises(NotTakenError):
        output_rows(leaf.selectExpr(f"{sql} AS x"), leaf)


def made(spark: SparkSession, steps: Any, rows: pa.Table, ddl: str) -> list[dict[str, Any]]:
    """What comes of rows."""
    leaf = spark.createDataFrame([], ddl)
    found = output_rows(steps(leaf), leaf).of(rows.combine_chunks().to_batches()[0])
    return found.to_pylist()


def test_operations_follow_each_other(spark: SparkSession) -> None:
    """Names, columns that only pass, and conditions under which others would fail."""
    rows = pa.table({"a": pa.array([1, 0, None, 4], pa.int64()), "raw": pa.array([[b"x"], None, [b"z"], []])})

    def steps(frame: DataFrame) -> DataFrame:
        kept = frame.withColumn("b", frame.a + 1).where("a != 0").selectExpr("10 DIV a AS q", "raw", "b", "'k' AS key")
        return kept.where("b > 1").withColumnRenamed("b", "c").select("key", "c", "raw", "q")

    assert made(spark, steps, rows, "a bigint, raw array<binary>") == [
        {"key": "k", "c": 2, "raw": [b"x"], "q": 10},
        {"key": "k", "c": 5, "raw": [], "q": 2},
    ]
    assert (
        made(spark, lambda frame: frame.selectExpr("'k' AS key"), rows, "a bigint, raw array<binary>")
        == [{"key": "k"}] * 4
    )


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (lambda frame: frame.selectExpr("explode(array(a))"), "Generate"),
        (lambda frame: frame.join(frame.sparkSession.range(3).hint("broadcast"), frame.a == 1), "Join"),
        (lambda frame: frame.selectExpr("to_json(struct(a), map('pretty', 'true'))"), "pretty"),
        (lambda frame: frame.selectExpr("to_json(map('a', a))"), "struct"),
    ],
)
def test_other_operations_are_not_taken(spark: SparkSession, steps: Any, why: str) -> None:
    leaf = spark.createDataFrame([], "a bigint")
    with pytest.raises(NotTakenError, match=why):
        output_rows(steps(leaf), leaf)


def test_settings_that_change_values_are_looked_at(spark: SparkSession) -> None:
    leaf = spark.createDataFrame([], "a bigint")
    with session_settings(spark, spark__sql__legacy__timeParserPolicy="LEGACY"), pytest.raises(NotTakenError):
        output_rows(leaf.selectExpr("CAST(a AS STRING)"), leaf)
    rows = pa.table({"a": pa.array([None], pa.int64())})
    with session_settings(spark, spark__sql__jsonGenerator__ignoreNullFields="false"):
        assert made(spark, lambda frame: frame.selectExpr("to_json(struct(a)) AS x"), rows, "a bigint") == [
            {"x": '{"a":null}'}
        ]


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York", "Africa/Monrovia", "UTC"])
def test_offsets_of_clocks_that_went_by_the_sun_have_seconds(spark: SparkSession, zone: str) -> None:
    """As in Spark's JSON; Monrovia's clocks went so until 1972."""
    micros = [-6_165_516_431_418_014, -2_500_000_000_000_000, -2_000_000_000_000_000, 0, 1_700_000_000_000_000]
    rows = pa.table({"t": pa.array(micros, pa.timestamp("us", "UTC"))})
    with session_settings(spark, spark__sql__session__timeZone=zone):
        found = made(spark, lambda frame: frame.selectExpr("to_json(struct(t)) AS x"), rows, "t timestamp")
        values = ", ".join(f"timestamp_micros({one}L)" for one in micros)
        wanted = spark.sql(f"SELECT to_json(struct(t)) AS x FROM VALUES {values} AS rows(t)").collect()
    assert [row["x"] for row in found] == [row.x for row in wanted]
