"""Doubles and floats are written as Java writes them, old versions with their flaws."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixedmode.runtime.scan.expressions.java_floats import java_text
from pyspark.sql import SparkSession

#: Those that make Java older than 19 write a digit too many, and others at the edges of its rules.
EDGES = [
    0.0,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    2.2250738585072014e-308,
    2e23,
    1e23,
    8.41e21,
    2.0**63,
    1e7,
    9999999.5,
]
EDGES += [1e-3, 9.999e-4, 1 / 3, 0.1, 1e22, 4.35, 2.0**62 + 2.0**30, 123456789.125, 3e10, float("nan"), float("-inf")]


def numbers(count: int) -> list[float]:
    """Of any bits, averages of money, and whole ones."""
    chance = random.Random(31)
    bits = [struct.unpack("d", struct.pack("Q", chance.getrandbits(64)))[0] for _ in range(count)]
    averages = [chance.randrange(10**6) / 100 / chance.randrange(1, 100) for _ in range(count)]
    powers = [2.0**power * factor for power in range(-1074, 1000, 3) for factor in (1.0, -3.0)]
    return [*EDGES, *bits, *averages, *powers, *[float(chance.randrange(10**18)) for _ in range(count)]]


def test_numbers_are_written_as_this_java_writes_them(spark: SparkSession, tmp_path: object) -> None:
    doubles = numbers(4000)
    floats = pa.array(doubles, pa.float64()).cast(pa.float32(), safe=False)
    pq.write_table(pa.table({"d": pa.array(doubles), "f": floats}), f"{tmp_path}/a.parquet")
    found = spark.read.parquet(f"{tmp_path}/a.parquet").selectExpr(
        "d", "f", "CAST(d AS STRING) AS a", "CAST(f AS STRING) AS b"
    )
    before_19 = int(spark._jvm.java.lang.Runtime.version().feature()) < 19
    wrong = []
    for one in found.collect():
        for number, text, is_float in ((one.d, one.a, False), (one.f, one.b, True)):
            mine = java_text(number, is_float=is_float, before_19=before_19)
            if mine != text:
                wrong.append((number, mine, text, is_float))
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


@pytest.mark.parametrize(
    ("number", "text"),
    [(2e23, "2.0E23"), (5e-324, "4.9E-324"), (2e-3, "0.002"), (1e7, "1.0E7"), (1e22, "1.0E22"), (1.0e-322, "9.9E-323")],
)
def test_newer_versions_write_the_shortest_decimal(number: float, text: str) -> None:
    """As the documentation of ``Double.toString`` has them, and as Java 25 writes them."""
    assert java_text(number, is_float=False, before_19=False) == text


def test_newer_versions_write_what_is_read_as_the_same_number() -> None:
    for number in numbers(500):
        if number == number and abs(number) != float("inf"):
            text = java_text(number, is_float=False, before_19=False)
            assert float(text) == number
            digits = text.partition("E")[0].replace(".", "").strip("-0")
            assert len(digits) <= max(2, len(repr(number).partition("e")[0].replace(".", "").strip("-0")))
