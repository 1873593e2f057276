"""DDL texts without a JVM mean what they mean to Spark."""

from __future__ import annotations

from unittest import mock

import pytest
from mixedmode.runtime.catalyst.types import ddl
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

TEXTS = (
    "n long",
    "a int, b string",
    "a: int, b: struct<c:array<map<string,double>>, d timestamp_ntz>",
    " `odd ``name` DECIMAL( 16 , 8 ) NOT NULL COMMENT 'it''s', b Decimal, c numeric(5)".replace("''", ""),
    "struct<a: byte, b: tinyint, c: short, d: smallint, e: integer, f: bigint>",
    "x boolean, y float, z real, d double, e date, f timestamp, g binary, h timestamp_ltz, i void",
    'b struct<>, c struct<`x y`: int comment "a \\"b\\"">',
    "key string, timestamp timestamp, map map<date, array<array<int>>>, comment string",
)


def without_spark(text: str) -> StructType:
    with mock.patch.object(SparkContext, "_active_spark_context", None):
        return ddl.parse_ddl(text)


def test_a_text_means_the_same_with_and_without_a_session(spark: SparkSession) -> None:
    """What is read without a session is what Spark reads, metadata and nullability included."""
    for text in TEXTS:
        assert without_spark(text).jsonValue() == ddl.parse_ddl(text).jsonValue()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("n", "at its end"),
        ("n lnog", "at 'lnog'"),
        ("a array<int", "at its end"),
        ("a int,", "at its end"),
        ("a int b string", "at 'b'"),
        ("a map<int>", "at '>'"),
        ("a int; b int", "at '; b int'"),
        ("a decimal(x)", "at 'x'"),
        ("v interval day", "at 'interval'"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, where: str) -> None:
    """No text is read as something else than it says."""
    with pytest.raises(ValueError, match="cannot be read") as caught:
        without_spark(text)
    assert where in str(caught.value)
