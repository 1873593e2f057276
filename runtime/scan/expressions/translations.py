"""The expressions of Spark's that have a :class:`Value`: a list, as data, that a test walks.

An entry is about one class of Spark's expressions.  Its examples are SQL over the columns of :data:`COLUMNS`; the test
computes them for generated rows with Spark and here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import builders as of
from . import functions, patterns  # noqa: F401  they are there wherever expressions are known
from .json_fields import json_field
from .translator import Build, Translator
from .values import Value

#: Changes whenever an expression gives another value than before.
TRANSLATION_VERSION = 5

#: Columns of the examples, in SQL; those with a 2 are like those without.
COLUMNS = (
    "b boolean, b2 boolean, tiny tinyint, small smallint, i int, i2 int, l bigint, l2 bigint, f float, d double,"
    " d2 double, m decimal(9,2), m2 decimal(9,2), w decimal(18,4), big decimal(30,6), s string, s2 string, y date,"
    " y2 date, t timestamp, t2 timestamp, n timestamp_ntz"
)


#: JSON of values, if their texts have nothing in them that JSON writes in another way.
_JSON = """concat('{"l": ', l, ', "x": [', i, '], "b": ', b, ', "s": "', s, '", "d": ', i2, '.5}')"""


@dataclass(frozen=True)
class Translation:
    """What becomes of one class of Spark's expressions.

    Args:
        kind: the class.
        build: makes a value, or raises.
        examples: in SQL.
    """

    kind: str
    build: Build
    examples: tuple[str, ...]


def _entry(kind: str, build: Build, *examples: str) -> Translation:
    return Translation(kind, build, examples)


TRANSLATIONS: tuple[Translation, ...] = (
    # Comparisons and logic.
    _entry(
        "EqualTo",
        of.compared("equal"),
        *("i = i2", "d = d2", "s = s2", "m = m2", "y = y2", "t = t2", "b = b2", "i = 5", "d = 1", "m > 3"),
        "i = 1.5",
    ),
    _entry("EqualNullSafe", of.compared("equal_or_null"), "i <=> i2", "d <=> d2", "s <=> 'a'", "i <=> null"),
    _entry("LessThan", of.compared("less"), "i < i2", "d < d2", "s < s2", "f < d", "l < i", "b < b2", "tiny < small"),
    _entry("LessThanOrEqual", of.compared("less_equal"), "i <= i2", "d <= d2", "s <= s2", "y <= y2", "w <= m"),
    _entry(
        "GreaterThan", of.compared("less", mirrored=True), "i > 0", "d > d2", "s > 'ä'", "t > '2020-01-01'", "n > t"
    ),
    _entry("GreaterThanOrEqual", of.compared("less_equal", mirrored=True), "l >= l2", "d >= d2", "t >= t2", "m >= m2"),
    _entry("And", of.plain("and"), "b AND b2", "i > 0 AND 10 % i > 3", "b AND l + l2 > 0"),
    _entry("Or", of.plain("or"), "b OR b2", "i = 0 OR 10 % i > 3", "b OR l + l2 > 0"),
    _entry("Not", of.plain("not"), "NOT b", "NOT (i > i2)", "i != i2", "NOT (s IN ('a', ''))"),
    _entry("IsNull", of.plain("is_null"), "s IS NULL", "i + 1 IS NULL"),
    _entry("IsNotNull", of.plain("is_valid"), "s IS NOT NULL", "d IS NOT NULL"),
    _entry("IsNaN", of.plain("is_nan"), "isnan(d)", "isnan(f)"),
    _entry(
        "In",
        of.is_in,
        *("i IN (1, 0, -1)", "s IN ('a', 'ä', '')", "l IN (1, null)", "d IN (1.5D, double('NaN'))", "i IN (i2, 5)"),
        *("y IN (date'2024-02-29', date'0001-01-01')", "m IN (1.50, 0)", "i NOT IN (1, 2)", "i BETWEEN 0 AND 100"),
    ),
    _entry("CaseWhen", of.case, "CASE WHEN i > 0 THEN s WHEN b THEN s2 END", "CASE i WHEN 0 THEN 1L ELSE 10 DIV i END"),
    _entry("If", of.case, "if(b, i, i2)", "if(i != 0, l % i, -1)", "nvl2(i, s, 'none')", "if(s = 'a', null, d)"),
    _entry("NullIfResult", of.null_if, "nullif(i, 0)", "nullif(s, '')", "l DIV nullif(i, 0)"),
    _entry("Coalesce", of.coalesce, "coalesce(i, i2, 7)", "nvl(s, 'none')", "ifnull(d, 0)", "coalesce(i, i2 + 1)"),
    _entry("Greatest", of.extreme("greatest"), "greatest(i, i2, 3)", "greatest(y, y2)", "greatest(t, t2)"),
    _entry("Least", of.extreme("least"), "least(l, l2)", "least(i, 100)"),
    # Arithmetic.
    _entry("Add", of.arithmetic("add"), "i + i2", "l + 1", "d + d2", "m + m2", "m + w", "tiny + tiny", "f + f"),
    _entry("Subtract", of.arithmetic("subtract"), "i - i2", "l - l2", "d - 1", "m - m2", "w - m", "1 - small"),
    _entry("Multiply", of.arithmetic("multiply"), "i * 2", "l * l2", "d * d2", "m * m2", "m * 2", "d * i", "m * w"),
    _entry("Divide", of.divide, "d / d2", "i / i2", "d / 3", "m / 7.0", "i / 100.0", "m / m2", "m / i"),
    _entry("IntegralDivide", of.whole_divide, "i DIV i2", "l DIV 7", "l DIV -7"),
    _entry("Remainder", of.remainder, "i % i2", "l % 10", "d % d2", "l % -3", "tiny % 7Y"),
    _entry("UnaryMinus", of.of_sign("negate"), "-i", "-d", "-m", "-tiny"),
    _entry("UnaryPositive", lambda to, expression, children: to.value(children[0]), "+i"),
    _entry("Abs", of.of_sign("abs"), "abs(i)", "abs(d)", "abs(m)", "abs(l)"),
    _entry("Floor", of.rounded("floor"), "floor(d)", "floor(i)", "floor(f)"),
    _entry(
        "Round", of.round_half_up, "round(d, 2)", "round(d)", "round(m, 1)", "round(w)", "round(i)", "round(d / 3, 4)"
    ),
    _entry("Ceil", of.rounded("ceil"), "ceil(d)", "ceil(l)"),
    _entry("Sqrt", of.plain("sqrt"), "sqrt(d)", "sqrt(abs(i))"),
    _entry("BitwiseAnd", of.plain("bit_and"), "i & i2", "l & 255"),
    _entry("BitwiseOr", of.plain("bit_or"), "i | i2"),
    _entry("BitwiseXor", of.plain("bit_xor"), "l ^ l2"),
    # Texts.
    _entry("Upper", of.plain("upper"), "upper(s)"),
    _entry("Lower", of.plain("lower"), "lower(s)", "lower(trim(s))"),
    _entry("Length", of.plain("length"), "length(s)", "char_length(s2)"),
    _entry(
        "Substring",
        of.substring,
        *("substring(s, 1, 2)", "substring(s, 0, 3)", "substring(s, 2)", "substring(s, -2, 2)", "left(s, 3)"),
        *("right(s, 2)", "substring(s, 3, 0)", "substring(s, -2)"),
    ),
    _entry("StringTrim", of.trim("trim"), "trim(s)", "trim(BOTH FROM s)"),
    _entry("StringTrimLeft", of.trim("ltrim"), "ltrim(s)"),
    _entry("StringTrimRight", of.trim("rtrim"), "rtrim(s)"),
    _entry("Concat", of.plain("concat"), "concat(s, s2)", "s || '-' || s2", "concat(s, i)"),
    _entry("ConcatWs", of.concat_ws, "concat_ws('-', s, s2)", "concat_ws('', s, 'x', s2)"),
    _entry("StartsWith", of.matched("starts_with"), "startswith(s, 'a')", "startswith(s, 'ä')"),
    _entry("EndsWith", of.matched("ends_with"), "endswith(s, 'b')"),
    _entry("Contains", of.matched("contains"), "contains(s, 'b')", "contains(s, 'é')"),
    _entry("Like", of.like, "s LIKE 'a%'", "s LIKE '%b'", "s LIKE '%b%'", "s LIKE 'a%b'", "s LIKE 'a'", "s LIKE '%'"),
    _entry(
        "RLike",
        patterns.matched_by,
        *("s RLIKE 'a+b'", "s RLIKE '^[a-z ]+$'", "s RLIKE '(a|x?b).'", "s RLIKE '[0-9]{1,2}'", "s RLIKE '^.?b'"),
    ),
    _entry(
        "RegExpExtract",
        patterns.extracted,
        *("regexp_extract(s, '([a-z]+)(b|e)', 1)", "regexp_extract(s, '([0-9]+)(-|$)', 1)"),
        "regexp_extract(s, '[^a]+', 0)",
    ),
    _entry("GetArrayItem", patterns.item("split_item"), "split(s, 'a')[1]", "split(s, ' ')[0]", "split(s, '%')[1]"),
    _entry("StringReplace", of.replace, "replace(s, 'a', 'bb')", "replace(s, 'aa', '')"),
    _entry("StringInstr", of.position, "instr(s, 'b')"),
    # Dates and times.
    _entry("Year", of.plain("year"), "year(y)", "year(t)", "year(n)"),
    _entry("Quarter", of.plain("quarter"), "quarter(y)"),
    _entry("Month", of.plain("month"), "month(y)", "month(t)"),
    _entry("DayOfMonth", of.plain("day"), "day(y)", "dayofmonth(t)"),
    _entry("DayOfYear", of.plain("day_of_year"), "dayofyear(y)"),
    _entry("WeekOfYear", of.plain("week"), "weekofyear(y)"),
    _entry("DayOfWeek", of.plain("day_of_week"), "dayofweek(y)"),
    _entry("WeekDay", of.plain("weekday"), "weekday(y)"),
    _entry("Hour", of.clock("hour"), "hour(t)", "hour(n)", "extract(HOUR FROM t)"),
    _entry("Minute", of.clock("minute"), "minute(t)", "minute(n)"),
    _entry("Second", of.clock("second"), "second(t)", "second(n)"),
    _entry(
        "TruncDate",
        of.truncated_date,
        "trunc(y, 'month')",
        "trunc(y, 'week')",
        "trunc(y, 'year')",
        "trunc(y, 'quarter')",
    ),
    _entry(
        "TruncTimestamp",
        of.truncated_time,
        *("date_trunc('hour', t)", "date_trunc('day', t)", "date_trunc('minute', t)", "date_trunc('week', t)"),
        *("date_trunc('month', t)", "date_trunc('second', t)", "date_trunc('year', t)"),
    ),
    _entry("DateAdd", of.days_added("add_checked"), "y + 1", "date_add(y, tiny)", "y + INTERVAL '1' DAY"),
    _entry("DateSub", of.days_added("subtract_checked"), "date_sub(y, 3)", "y - 7"),
    _entry("DateDiff", of.plain("days_between"), "datediff(y, y2)", "datediff(t, t2)"),
    _entry("LastDay", of.plain("last_day"), "last_day(y)"),
    _entry(
        "TimestampAddInterval",
        of.time_added,
        *(
            "t + INTERVAL 1 HOUR",
            "t - INTERVAL 90 SECONDS",
            "t + INTERVAL '1 02:03' DAY TO MINUTE",
            "n - INTERVAL 3 HOURS",
            "t - INTERVAL 2 DAYS",
        ),
    ),
    _entry("UnixTimestamp", of.seconds(), "unix_timestamp(t)"),
    _entry("ToUnixTimestamp", of.seconds(), "to_unix_timestamp(t)"),
    _entry("UnixSeconds", of.seconds("down"), "unix_seconds(t)"),
    _entry(
        "DateFormatClass",
        of.formatted,
        *("date_format(t, 'yyyy-MM-dd')", "date_format(t, 'yyyyMMdd HH:mm:ss')", "date_format(y, 'yyyy-MM')"),
        *("date_format(n, 'HH')",),
    ),
    _entry(
        "Cast",
        of.cast,
        *("CAST(i AS BIGINT)", "CAST(l AS INT)", "CAST(i AS TINYINT)", "CAST(i AS DOUBLE)", "CAST(l AS DOUBLE)"),
        *(
            "CAST(l AS FLOAT)",
            "CAST(d AS FLOAT)",
            "CAST(f AS DOUBLE)",
            "CAST(d AS INT)",
            "CAST(d AS BIGINT)",
            "CAST(b AS INT)",
        ),
        *("CAST(i AS BOOLEAN)", "CAST(i AS STRING)", "CAST(b AS STRING)", "CAST(y AS STRING)", "CAST(s AS INT)"),
        *("CAST(s AS BIGINT)", "CAST(s AS DOUBLE)", "CAST(s AS DATE)", "CAST(s AS TIMESTAMP)", "to_date(t)", "date(n)"),
        *("CAST(y AS TIMESTAMP)", "CAST(t AS BIGINT)", "CAST(i AS DECIMAL(12, 2))", "CAST(m AS DECIMAL(18, 4))"),
        *("CAST(m AS DOUBLE)", "CAST(w AS BIGINT)", "CAST(m AS INT)", "to_timestamp(s)", "CAST(big AS DOUBLE)"),
    ),
    _entry(
        "GetStructField",
        json_field,
        *(f"from_json({_JSON}, 'l bigint, b boolean, s string, d double').{name}" for name in "lbsd"),
        *("from_json(s, 'l bigint').l", "from_json(concat('{\"a\":', s2, ',\"s\":\"x\"}'), 's string, a int').s"),
    ),
)
#: What makes the value of an expression, by its class.
BUILDS = {entry.kind: entry.build for entry in TRANSLATIONS}


def translator(column: Callable[[Any], Value]) -> Translator:
    """Translates all expressions of the list; ``column``: gives the value of a column, or raises."""
    return Translator(column, BUILDS)
