"""What plain Spark batch says about the same flights, and whether a query's output is equal to it.

The expectations are written without any of the code that they check: window functions instead of the processor, a
batch ``groupBy`` instead of ``mixedmode``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

#: Rows of a difference that are kept for showing.
_SHOWN_ROWS = 5


@dataclass(frozen=True)
class Comparison:
    """The outcome of comparing two tables as multisets of rows."""

    rows: int
    expected_rows: int
    #: Rows that should be there and are not, and the other way round: their number, and the first few.
    missing: int
    unexpected: int
    examples: tuple[tuple[str, Row], ...]

    @property
    def equal(self) -> bool:
        return self.missing == 0 and self.unexpected == 0


def compare(actual: DataFrame, expected: DataFrame) -> Comparison:
    """Compare as multisets: order does not count, repetitions do.

    Raises:
        ValueError: the columns differ in name or type.
    """
    if [(f.name, f.dataType) for f in actual.schema] != [(f.name, f.dataType) for f in expected.schema]:
        raise ValueError(
            f"the columns differ: {actual.schema.simpleString()} is not {expected.schema.simpleString()};"
            " select and cast both to the same columns first"
        )
    here = actual.select("*", F.lit(1).alias("__actual"), F.lit(0).alias("__expected"))
    there = expected.select("*", F.lit(0).alias("__actual"), F.lit(1).alias("__expected"))
    counted = (
        here.unionAll(there)
        .groupBy(*actual.columns)
        .agg(F.sum("__actual").alias("__actual"), F.sum("__expected").alias("__expected"))
        .withColumn("__surplus", F.col("__actual") - F.col("__expected"))
        .persist()
    )
    sums = counted.agg(
        F.sum("__actual"),
        F.sum("__expected"),
        F.sum(F.greatest(-F.col("__surplus"), F.lit(0))),
        F.sum(F.greatest(F.col("__surplus"), F.lit(0))),
    ).first()
    assert sums is not None
    examples = []
    if sums[2] or sums[3]:
        kinds = counted.withColumn("__kind", F.when(F.col("__surplus") < 0, "missing").otherwise("unexpected"))
        shown = kinds.where("__surplus != 0").drop("__actual", "__expected", "__surplus").limit(_SHOWN_ROWS).collect()
        examples = [(row["__kind"], Row(**{name: row[name] for name in actual.columns})) for row in shown]
    counted.unpersist()
    return Comparison(sums[0] or 0, sums[1] or 0, sums[2] or 0, sums[3] or 0, tuple(examples))


def watermark_of(flights: DataFrame, delay: timedelta) -> datetime:
    """The watermark of a stream that has read all of ``flights``: what ends at or before it is closed."""
    row = flights.agg(F.max("ts")).first()
    assert row is not None
    return row[0] - delay


def expected_rotations(flights: DataFrame, quiet: timedelta) -> DataFrame:
    """All rotations of the year with their end, by window functions over each aircraft's departures."""
    legs = flights.where("tailnum is not null and dep_time is not null").select("tailnum", "ts", "dest", "distance")
    by_aircraft = Window.partitionBy("tailnum").orderBy("ts")
    seconds = F.col("ts").cast("long")
    begins = (F.lag(seconds).over(by_aircraft).isNull()) | (
        seconds - F.lag(seconds).over(by_aircraft) >= int(quiet.total_seconds())
    )
    numbered = legs.withColumn("begins", begins.cast("int")).withColumn(
        "number", F.sum("begins").over(by_aircraft.rangeBetween(Window.unboundedPreceding, Window.currentRow))
    )
    minutes = (F.max(seconds) - F.min(seconds)) / 60
    return (
        numbered.groupBy("tailnum", "number")
        .agg(
            F.min("ts").alias("first_departure"),
            F.max("ts").alias("last_departure"),
            F.count("*").cast("int").alias("legs"),
            F.sum("distance").alias("miles"),
            F.when(F.count("*") > 1, minutes / (F.count("*") - 1)).alias("turnaround_min"),
            F.max_by("dest", F.struct("ts", "dest")).alias("airport"),
        )
        .drop("number")
        .withColumn("ends", F.col("last_departure") + F.expr(f"INTERVAL {int(quiet.total_seconds())} SECONDS"))
    )


def expected_ended_days(rotations: DataFrame) -> DataFrame:
    """How many rotations, with how many legs and miles, end at each airport and day."""
    return rotations.groupBy("airport", F.window("ends", "1 day").alias("day")).agg(
        F.count("*").alias("rotations"), F.sum("legs").alias("legs"), F.sum("miles").alias("miles")
    )


def expected_hours(flights: DataFrame) -> DataFrame:
    """Departures of every carrier and hour of the year."""
    return flights.groupBy("carrier", F.window("ts", "1 hour").alias("hour")).agg(
        F.count("*").alias("flights"),
        F.count("dep_time").alias("departed"),
        F.sum("dep_delay").alias("delay_min"),
        F.max("dep_delay").alias("worst_delay_min"),
        F.avg("dep_delay").alias("mean_delay_min"),
    )
