"""Fields of JSON texts are what Spark's from_json gives, null where it gives null, or the text is left to Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expression_support import bits, session_settings, taken
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mixedmode.runtime.catalyst.spark_expressions import items, without_alias
from mixedmode.runtime.catalyst.spark_plans import analyzed
from mixedmode.runtime.scan.expressions.translations import translator
from mixedmode.runtime.scan.expressions.values import Batch, Value
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.scan.scan_plans import recognised
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = (
    "id bigint, kind string, ok boolean, user struct<tags: array<int>, id: bigint, name: struct<first: string>>,"
    " value double, `a b` int, small smallint, tags array<string>, day date, ts timestamp"
)
FIELDS = ("id", "kind", "ok", "value", "a b", "small", "day", "ts", "user.id", "user.name.first")

#: Of these fields have values, or are known to have none.
TAKEN = [
    None,
    "",
    " ",
    "{}",
    '{"id": 1, "kind": "a", "ok": true, "value": 1.5, "a b": 7, "small": -32768, "tags": ["x"], "ts": null}',
    '{"kind":"b","kind":"c","id":null}',
    '{"\\u006bind": "\\u00e4\\ud83d\\ude00\\n", "other": {"id": 5, "x": [1, {"id": 6}]}}',
    '\t\r\n {"kind" : "ä€😀" , "ID": 1, "Kind": "x"}  ',
    '{"value": 1, "x": 1e400}',
    '{"user": {"id": 5, "name": {"first": "a", "last": 5}}, "id": 1}',
    '{"user": {"id": 5, "name": null, "tags": "x"}}',
    '{"user": {"name": {}, "id": null, "ID": 7}}',
    '{"user": null, "user": {"id": 1}, "name": {"first": "b"}}',
    '{"user": {"id": 1}, "user": {"name": {"first": "c"}}}',
    '{"day": "2024-02-29", "ts": "2024-02-29T23:59:59.123456Z"}',
    '{"day": "1000-01-01", "ts": "2024-02-29 01:02:03.5"}',
    '{"value": -0}',
    '{"value": 9007199254740993}',
    '{"value": 123456789012345678901234567890}',
    '{"value": 2.2250738585072011e-308, "id": 9223372036854775807}',
    '{"value": 0.1e-7, "id": -9223372036854775808, "tags": 5}',
    '{"id": 1, "kind": "cut o',
    '{"id": 1, "kind": "a", "ok": tr',
    '{"id": 12',
    '{"id": 1, "tags": ["a", ',
    '{"id": 1, "other": {"deep": {"er": ',
    '{"id": 1, "user": {"id": 1}, "tags": ["}", {"a": "\\"{"}], "kind": "{',
    "true",
    "5",
    '"text"',
    "not json",
    "null",
    "NaN",
    "/* {} */",
    "'x'",
    "}",
    "a{",
    '{"id": 1, "other": [1, tru',
    '{"id": 1, "kind": "a\\',
    '{"id": 1, "kind": "a\\u00',
    '{"id": 1, "kind": "' + "x" * 600 + '"}',
]
#: What is Spark's, whatever it gives.
LEFT = [
    '{"id": 1, "user": {"id": 5, "name": {"first": "cut',
    '{"id": 1, "user": {"id": 5, "x":',
    '{"id": 1, "tags": [{"a":',
    # Wrong so near to the end that it looks cut off.
    '{"id": 1, "tags": [f]}',
    '{"id": 1, "tags": [n',
    '{"user": {"id": 1, "tags": [f]}}',
    '{"user": {"id": 2, "name": {"first": f}}',
    '{"\\u":1',
    '{"id":1,"\\ux":',
    '{"id": 1, "x": ' + "1" * 300 + "." + "9" * 300 + "e400}",
    '{"id": 1, "' + "😀" * 20_000 + '": 1}',
    '{"user": 5}',
    '{"user": []}',
    '{"user": ""}',
    '{"user": {"id": "x"}}',
    '{"day": "2024-2-1"}',
    '{"day": 5}',
    '{"ts": ""}',
    '{"ts": 5}',
    '{"ts": "2024-01-01"}',
    '{"ts": "2024-01-01T10:00:00+02:00"}',
    '{"ts": "nonsense"}',
    '{"id": 1} {"id": 2}',
    '{"id": 1} rest',
    '[{"id": 1}]',
    '{"id": "1"}',
    '{"id": 1.0}',
    '{"id": 9223372036854775808}',
    '{"a b": 2147483648}',
    '{"small": 32768}',
    '{"kind": 5}',
    '{"kind": {"a": 1}}',
    '{"ok": 1}',
    '{"value": "NaN"}',
    '{"value": NaN}',
    '{"value": -0.0}',
    '{"value": 1e400}',
    "{'id': 1}",
    "{id: 1}",
    '{"id": 01}',
    '{"id": 1,}',
    '{"id": 1 /* one */}',
    '{"kind": "a\tb"}',
    '{"kind": "\\q"}',
    '{"kind": "\\ud800"}',
    '{"other": "\\ud800',
    '\ufeff{"id": 1}',
    '{"id": 1, "x": ' + "9" * 1200 + "}",
    '{"id": 1, "x": ' + "[" * 600 + "]" * 600 + "}",
    '{"id": 1, "' + "x" * 60_000 + '": 1}',
]


def field_of(name: str, schema: str = SCHEMA) -> Column:
    return reduce(Column.getField, name.split("."), F.from_json("line", schema))


def value_of(frame: DataFrame, name: str, schema: str = SCHEMA) -> Value:
    plan = analyzed(frame.select(field_of(name, schema)))
    return translator(lambda attribute: Value("column", pa.string(), (), ("line",))).value(
        without_alias(next(items(plan.projectList())))
    )


def batch_of(lines: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch({"line": pa.array(lines, pa.string())})


def compare(
    spark: SparkSession, lines: list[str | None], path: Path, schema: str = SCHEMA, fields: Sequence[str] = FIELDS
) -> list[int]:
    """Compare all fields of those texts that are taken with Spark; gives their places."""
    rows = batch_of(lines)
    pq.write_table(pa.Table.from_batches([rows]), path)
    frame = spark.read.schema("line string").parquet(str(path)).coalesce(1)
    columns = [field_of(name, schema).alias(f"x{place}") for place, name in enumerate(fields)]
    theirs = frame.select(*columns).toArrow()
    # The same where Spark reads just one field, and where it reads all.
    with session_settings(spark, spark__sql__optimizer__enableJsonExpressionOptimization="false"):
        others = frame.select(*columns).toArrow()
    places = taken_of_all([value_of(frame, name, schema) for name in fields], rows)
    for place, name in enumerate(fields):
        ours = Batch(rows.take(pa.array(places, pa.int64()))).of(value_of(frame, name, schema))
        wanted = theirs.column(place).combine_chunks().take(pa.array(places, pa.int64()))
        wanted = wanted.cast(ours.type) if pa.types.is_timestamp(ours.type) else wanted
        assert ours.type == wanted.type
        unpruned = others.column(place).combine_chunks().take(pa.array(places, pa.int64())).cast(ours.type)
        for at, one, *both in zip(places, bits(ours), bits(wanted), bits(unpruned), strict=True):
            assert both == [one, one], f"{name} is {one!r} here and {both!r} in Spark of {lines[at]!r}"
    return places


def taken_of_all(values: list[Value], rows: pa.RecordBatch) -> list[int]:
    return sorted(set.intersection(*[set(taken(value, rows)) for value in values]))


def test_plain_objects_and_what_has_no_field_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    """Cut-off texts, empty ones, and those that are no objects have no fields in Spark either."""
    places = compare(spark, [*TAKEN, *LEFT], tmp_path / "a.parquet")
    assert places == list(range(len(TAKEN)))


FLAT = "id bigint, kind string, ok boolean, value double"
WHOLE = (
    '{"id": -12, "kind": "a\\u00e4\\n\\"", "x": {"y": [1.5e3, true, null]}, "ok": false, "tags": ["{"], "value": 0.25,'
    ' "user": {"tags": [1], "id": 5, "x": [{}], "name": {"first": "b", "last": "c"}}, "day": "2024-01-01", "a b": 3}'
)


def test_a_text_has_no_field_wherever_it_is_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    """Every beginning of an object is taken, and none has a field, where fields are no objects."""
    lines: list[str | None] = [WHOLE[:end] for end in range(len(WHOLE))]
    found = compare(spark, lines, tmp_path / "a.parquet", FLAT, ("id", "kind", "ok", "value"))
    assert found == list(range(len(lines)))


def test_what_is_cut_off_in_an_object_of_the_schema_is_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """Spark may keep the fields before it; in an array, or in an object that nobody asks for, it keeps none."""
    lines: list[str | None] = [WHOLE[:end] for end in range(len(WHOLE))]
    user = range(WHOLE.index('"user": {') + len('"user": {'), WHOLE.index("}}") + 2)
    found = compare(spark, lines, tmp_path / "a.parquet")
    assert found == [end for end in range(len(WHOLE)) if end not in user]


def objects() -> st.SearchStrategy[str]:
    """JSON of objects, some with a part that is replaced, taken out, or doubled."""
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(allow_nan=False), st.text(max_size=5)
    )
    values = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    )
    typed = st.fixed_dictionaries(
        {},
        optional={
            "id": st.integers(-(2**63), 2**63 - 1) | values,
            "kind": st.text(max_size=6) | values,
            "ok": st.booleans() | values,
            "value": st.floats() | st.integers() | values,
            "a b": st.integers(-(2**31), 2**31) | values,
            "other": values,
            "user": st.fixed_dictionaries({}, optional={"id": st.integers(0, 9), "name": values, "x": values}) | values,
            "day": st.dates().map(str) | values,
            "ts": st.datetimes().map(lambda one: one.isoformat() + "Z") | st.datetimes().map(str) | values,
        },
    )
    texts = st.builds(
        lambda one, ascii_only, space: json.dumps(one, ensure_ascii=ascii_only, separators=("," + space, ":" + space)),
        *(typed, st.booleans(), st.sampled_from(["", " ", "\n", "  \t"])),
    )
    changed = st.builds(
        lambda text, start, length, by: text[: start % (len(text) + 1)] + by + text[start % (len(text) + 1) + length :],
        *(texts, st.integers(0, 200), st.integers(0, 4)),
        st.sampled_from(
            ["", " ", '"', "'", "{", "}", "[", "]", ",", ":", "\\", "0", "-", "e", "null", "\u0000", "\\u00", "é"]
        ),
    )
    return texts | changed | st.builds(lambda text, end: text[: end % (len(text) + 1)], texts, st.integers(0, 500))


def test_generated_texts_have_sparks_fields(spark: SparkSession, tmp_path: Path) -> None:
    """Nasty values, and parts of the text that are changed; many are taken."""

    @settings(max_examples=5, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
    @given(st.lists(objects(), min_size=60, max_size=60))
    def run(lines: list[str | None]) -> None:
        places = compare(spark, lines, tmp_path / "a.parquet")
        assert len(places) > len(lines) // 20

    run()


OTHERS = [
    (SCHEMA, "tags"),
    (SCHEMA, "user.tags"),
    ("id bigint, _corrupt_record string", "id"),
    ("small tinyint", "small"),
    ("a struct<x: int>, b int, a int", "b"),
    ('`a"b` int, id bigint', "id"),
    ("id bigint, x binary", "id"),
    ("id bigint, x array<struct<y: binary>>", "id"),
    ("id bigint, x map<string, variant>", "id"),
    ("user struct<id: bigint, x: void>", "user.id"),
]


@pytest.mark.parametrize(("schema", "field"), OTHERS)
def test_other_fields_are_sparks(spark: SparkSession, schema: str, field: str) -> None:
    """Those of other types, and those of texts where Spark has to say what it could not read, or reads on elsewhere."""
    with pytest.raises(NotTakenError):
        value_of(spark.createDataFrame([("{}",)], "line string"), field, schema)


def test_constants_are_sparks(spark: SparkSession) -> None:
    """It computes them once."""
    frame = spark.createDataFrame([("{}",)], "line string")
    for sql in ("'{\"id\": 1}'", "CAST(NULL AS STRING)", "lower('{}')"):
        plan = analyzed(frame.selectExpr(f"from_json({sql}, 'id bigint').id"))
        with pytest.raises(NotTakenError, match="constant"):
            translator(lambda attribute: Value("constant", pa.null())).value(
                without_alias(next(items(plan.projectList())))
            )


def test_options_and_settings_of_json_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """A mode, or another name of the column with what could not be read, changes what Spark gives."""
    pq.write_table(pa.table({"line": ['{"id": 1}']}), tmp_path / "a.parquet")
    frame = spark.read.schema("line string").parquet(str(tmp_path / "a.parquet"))

    def scan(options: dict[str, str]) -> Any:
        row = F.from_json("line", "id bigint", options)
        counted = frame.select(row.alias("row")).groupBy("row.id").agg(F.count("*").alias("n"))
        return recognised(counted.select("*"), {}, "fast")

    assert scan({}).partials.computed
    with pytest.raises(NotTakenError, match="from_json with options"):
        scan({"mode": "FAILFAST"})
    for name, value in (("json__enablePartialResults", "false"), ("columnNameOfCorruptRecord", "id")):
        with session_settings(spark, **{f"spark__sql__{name}": value}), pytest.raises(NotTakenError, match="JSON"):
            scan({})
