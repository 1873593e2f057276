"""Fields of JSON texts are what Spark's from_json gives, null where it gives null, or the text is left to Spark."""

from __future__ import annotations

import json
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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, kind string, ok boolean, value double, `a b` int, small smallint, tags array<string>, ts timestamp"
FIELDS = ("id", "kind", "ok", "value", "a b", "small")

#: Of these fields have values, or are known to have none.
TAKEN = [
    None,
    "",
    " ",
    "{}",
    '{"id": 1, "kind": "a", "ok": true, "value": 1.5, "a b": 7, "small": -32768, "tags": ["x"], "ts": "2024-01-01"}',
    '{"kind":"b","kind":"c","id":null}',
    '{"\\u006bind": "\\u00e4\\ud83d\\ude00\\n", "other": {"id": 5, "x": [1, {"id": 6}]}}',
    '\t\r\n {"kind" : "ä€😀" , "ID": 1, "Kind": "x"}  ',
    '{"value": 1, "x": 1e400}',
    '{"value": -0}',
    '{"value": 9007199254740993}',
    '{"value": 123456789012345678901234567890}',
    '{"value": 2.2250738585072011e-308, "id": 9223372036854775807}',
    '{"value": 0.1e-7, "id": -9223372036854775808, "tags": 5, "ts": {}}',
    '{"id": 1, "kind": "cut o',
    '{"id": 1, "kind": "a", "ok": tr',
    '{"id": 12',
    '{"id": 1, "tags": ["a", ',
    '{"id": 1, "other": {"deep": {"er": ',
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
    '{"id": 1, "kind": "' + "x" * 600 + '"}',
]
#: What is Spark's, whatever it gives.
LEFT = [
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


def value_of(frame: DataFrame, name: str, schema: str = SCHEMA) -> Value:
    plan = analyzed(frame.select(F.from_json("line", schema)[name]))
    return translator(lambda attribute: Value("column", pa.string(), (), ("line",))).value(
        without_alias(next(items(plan.projectList())))
    )


def batch_of(lines: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch({"line": pa.array(lines, pa.string())})


def compare(spark: SparkSession, lines: list[str | None], path: Path) -> list[int]:
    """Compare all fields of those texts that are taken with Spark; gives their places."""
    rows = batch_of(lines)
    pq.write_table(pa.Table.from_batches([rows]), path)
    frame = spark.read.schema("line string").parquet(str(path)).coalesce(1)
    columns = [F.from_json("line", SCHEMA)[name].alias(f"x{place}") for place, name in enumerate(FIELDS)]
    theirs = frame.select(*columns).toArrow()
    # The same where Spark reads just one field, and where it reads all.
    with session_settings(spark, spark__sql__optimizer__enableJsonExpressionOptimization="false"):
        others = frame.select(*columns).toArrow()
    places = taken(value_of(frame, "id"), rows)
    for place, name in enumerate(FIELDS):
        ours = Batch(rows.take(pa.array(places, pa.int64()))).of(value_of(frame, name))
        wanted = theirs.column(place).combine_chunks().take(pa.array(places, pa.int64()))
        assert ours.type == wanted.type
        unpruned = others.column(place).combine_chunks().take(pa.array(places, pa.int64()))
        for at, one, *both in zip(places, bits(ours), bits(wanted), bits(unpruned), strict=True):
            assert both == [one, one], f"{name} is {one!r} here and {both!r} in Spark of {lines[at]!r}"
    return places


def test_plain_objects_and_what_has_no_field_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    """Cut-off texts, empty ones, and those that are no objects have no fields in Spark either."""
    places = compare(spark, [*TAKEN, *LEFT], tmp_path / "a.parquet")
    assert places == list(range(len(TAKEN)))


def test_a_text_has_no_field_wherever_it_is_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    """Every beginning of an object is taken, and none has a field."""
    whole = (
        '{"id": -12, "kind": "a\\u00e4\\n\\"", "x": {"y": [1.5e3, true, null]}, "ok": false, "value": 0.25, "a b": 3}'
    )
    lines: list[str | None] = [whole[:end] for end in range(len(whole))]
    assert compare(spark, lines, tmp_path / "a.parquet") == list(range(len(lines)))


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
    return texts | changed


def test_generated_texts_have_sparks_fields(spark: SparkSession, tmp_path: Path) -> None:
    """Nasty values, and parts of the text that are changed; many are taken."""

    @settings(max_examples=5, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None)
    @given(st.lists(objects(), min_size=60, max_size=60))
    def run(lines: list[str | None]) -> None:
        places = compare(spark, lines, tmp_path / "a.parquet")
        assert len(places) > len(lines) // 20

    run()


@pytest.mark.parametrize(
    ("schema", "field"), [(SCHEMA, "tags"), (SCHEMA, "ts"), ("id bigint, _corrupt_record string", "id")]
)
def test_other_fields_are_sparks(spark: SparkSession, schema: str, field: str) -> None:
    """Those of other types, and those of texts where Spark has to say what it could not read."""
    with pytest.raises(NotTakenError):
        value_of(spark.createDataFrame([("{}",)], "line string"), field, schema)


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
