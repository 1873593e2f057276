"""In SQL: Spark's reference, documentation and suites"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..job import Job, Read, ending
from ..listed import listed
from ..making import fixed, iso, series

JOBS: list[Job] = []

_LAST = "2025-01-01T00:00:00Z"
TAB = ending(
    series(
        "a string, b timestamp",
        lambda n, s, random: {"a": random.choice(("A1", "A2", "A3")), "b": iso(s)},
        step=97,
    ),
    {"a": "end", "b": _LAST},
)
CLICKS = ending(
    series(
        "eventTime timestamp, userId string",
        lambda n, s, random: {"eventTime": iso(s), "userId": f"user{random.randint(1, 3)}"},
        step=97,
    ),
    {"eventTime": _LAST, "userId": "end"},
)
TEMP = series(
    "time timestamp, value int",
    lambda n, s, random: {"time": iso(s) if n % 9 else None, "value": random.randint(1, 4)},
    step=4,
)
DEVICES = series(
    "device string, deviceType string, signal double, time timestamp",
    lambda n, s, random: {"device": f"d{n % 4}", "deviceType": "ab"[n % 2], "signal": float(n % 15), "time": iso(s)},
)
IMPRESSIONS = ending(
    series(
        "impressionAdId int, impressionTime timestamp",
        lambda n, s, random: {"impressionAdId": n, "impressionTime": iso(s)},
        step=307,
    ),
    {"impressionAdId": -1, "impressionTime": _LAST},
)
AD_CLICKS = ending(
    series(
        "clickAdId int, clickTime timestamp",
        lambda n, s, random: {"clickAdId": n if random.random() < 0.6 else n - 30, "clickTime": iso(s + 600)},
        step=307,
    ),
    {"clickAdId": -2, "clickTime": _LAST},
)
DEALERS = series(
    "id int, city string, car_model string, quantity int",
    lambda n, s, random: {
        "id": 100 * random.randint(1, 3),
        "city": random.choice(("Fremont", "Dublin", "San Jose", "Oslo")),
        "car_model": random.choice(("Honda Civic", "Honda Accord", "Honda CRV")),
        "quantity": random.choice((None, 0, 1, 3)),
    },
)
PERSONS = series(
    "id int, name string, age int, class int, address string",
    lambda n, s, random: {
        "id": n,
        "name": f"n{n}",
        "age": random.choice((None, 18, 80)),
        "class": n % 4,
        "address": "",
    },
)
NUMBERS = series("c int", lambda n, s, random: {"c": random.choice((None, 1, 2, 3))})
KEYED = series("key int, name string", lambda n, s, random: {"key": random.randint(1, 9), "name": f"n{n}"})


def _tab(read: Read, *delay: str) -> None:
    rows = read("tab")
    (rows.withWatermark("b", *delay) if delay else rows).createOrReplaceTempView("tab")


@listed(JOBS, inputs={"tab": TAB}, mode="complete", sink="memory", ordered=True)
def sql_example_of_window(spark: SparkSession, read: Read) -> Any:
    _tab(read)
    counts = spark.sql("""
        SELECT a, window.start, window.end, count(*) as cnt FROM tab
        GROUP by a, window(b, '5 minutes') ORDER BY a, start
    """)
    return counts.writeStream.format("memory").outputMode("complete")


@listed(JOBS, inputs={"tab": TAB}, mode="append", sink="memory")
def sql_example_of_sliding_window(spark: SparkSession, read: Read) -> Any:
    _tab(read, "1 minute")
    counts = spark.sql("""
        SELECT a, window.start, window.end, count(*) as cnt FROM tab
        GROUP by a, window(b, '10 minutes', '5 minutes')
    """)
    return counts.writeStream.format("memory")


@listed(JOBS, inputs={"tab": TAB}, mode="append", sink="memory")
def sql_example_of_session_window(spark: SparkSession, read: Read) -> Any:
    _tab(read, "1 minute")
    counts = spark.sql("""
        SELECT a, session_window.start, session_window.end, count(*) as cnt FROM tab
        GROUP by a, session_window(b, '5 minutes')
    """)
    return counts.writeStream.format("memory")


@listed(JOBS, inputs={"tab": TAB}, mode="append", sink="memory")
def sql_example_of_session_gaps(spark: SparkSession, read: Read) -> Any:
    _tab(read, "1 minute")
    counts = spark.sql("""
        SELECT a, session_window.start, session_window.end, count(*) as cnt FROM tab
        GROUP by a, session_window(b,
            CASE WHEN a = 'A1' THEN '5 minutes' WHEN a = 'A2' THEN '1 minute' ELSE '10 minutes' END)
    """)
    return counts.writeStream.format("memory")


@listed(JOBS, inputs={"tab": TAB}, mode="complete", sink="memory", ordered=True)
def sql_example_of_window_time(spark: SparkSession, read: Read) -> Any:
    _tab(read)
    times = spark.sql("""
        SELECT a, window.start as start, window.end as end, window_time(window), cnt
        FROM (SELECT a, window, count(*) as cnt FROM tab GROUP by a, window(b, '5 minutes') ORDER BY a, window.start)
    """)
    return times.writeStream.format("memory").outputMode("complete")


@listed(JOBS, inputs={"clicks": CLICKS}, mode="append", sink="memory")
def sql_sessions_of_windows(spark: SparkSession, read: Read) -> Any:
    read("clicks").withWatermark("eventTime", "1 minute").createOrReplaceTempView("clicks")
    sessions = spark.sql("""
        SELECT session_window(small_window, '5 minutes') AS session, userId, sum(numClicks) AS numClicks
        FROM (SELECT window(eventTime, '1 minute') AS small_window, userId, count(*) AS numClicks
              FROM clicks GROUP BY window, userId) cpu_small
        GROUP BY session_window, userId
    """)
    return sessions.writeStream.format("memory")


@listed(JOBS, inputs={"temp": TEMP}, mode="append", sink="memory")
def sql_windows_of_rows(spark: SparkSession, read: Read) -> Any:
    read("temp").createOrReplaceTempView("temp")
    windows = spark.sql("""select window(time, "10 seconds", 10000000, "-5 seconds"), value from temp""")
    casts = [F.col(f"window.{end}").cast("string").alias(end) for end in ("start", "end")]
    return windows.select(*casts, F.col("value")).writeStream.format("memory")


@listed(JOBS, inputs={"temp": TEMP}, mode="append", sink="memory")
def sql_sessions_of_rows(spark: SparkSession, read: Read) -> Any:
    read("temp").createOrReplaceTempView("temp")
    sessions = spark.sql("""
        select session_window(time,
            case when value = 1 then "2 seconds" when value = 2 then "10 seconds" else "20 seconds" end), value
        from temp
    """)
    casts = [F.col(f"session_window.{end}").cast("string").alias(end) for end in ("start", "end")]
    return sessions.select(*casts, F.col("value")).writeStream.format("memory")


@listed(JOBS, inputs={"devices": DEVICES}, mode="complete", sink="memory")
def sql_count_of_updates(spark: SparkSession, read: Read) -> Any:
    read("devices").createOrReplaceTempView("updates")
    return spark.sql("select count(*) from updates").writeStream.format("memory").outputMode("complete")


def _advertised(read: Read) -> None:
    read("impressions").withWatermark("impressionTime", "2 hours").createOrReplaceTempView("impressions")
    read("clicks").withWatermark("clickTime", "3 hours").createOrReplaceTempView("clicks")


@listed(JOBS, inputs={"impressions": IMPRESSIONS, "clicks": AD_CLICKS}, mode="append", sink="memory")
def sql_impressions_joined_with_clicks(spark: SparkSession, read: Read) -> Any:
    _advertised(read)
    return spark.sql("""
        SELECT * FROM impressions JOIN clicks ON
            clickAdId = impressionAdId AND
            clickTime >= impressionTime AND
            clickTime <= impressionTime + interval 1 hour
    """).writeStream.format("memory")


@listed(JOBS, inputs={"impressions": IMPRESSIONS, "clicks": AD_CLICKS}, mode="append", sink="memory")
def sql_impressions_with_or_without_clicks(spark: SparkSession, read: Read) -> Any:
    _advertised(read)
    return spark.sql("""
        SELECT * FROM impressions LEFT OUTER JOIN clicks ON
            clickAdId = impressionAdId AND
            clickTime >= impressionTime AND
            clickTime <= impressionTime + interval 1 hour
    """).writeStream.format("memory")


@listed(JOBS, inputs={"dealer": DEALERS}, mode="complete", sink="memory")
def sql_dealers_above_fifteen(spark: SparkSession, read: Read) -> Any:
    read("dealer").createOrReplaceTempView("dealer")
    sums = spark.sql("SELECT city, sum(quantity) AS sum FROM dealer GROUP BY city HAVING sum > 15")
    return sums.writeStream.format("memory").outputMode("complete")


@listed(JOBS, inputs={"dealer": DEALERS}, mode="update", sink="memory", keys=("id",))
def sql_dealers_of_two_models(spark: SparkSession, read: Read) -> Any:
    read("dealer").createOrReplaceTempView("dealer")
    sums = spark.sql("""
        SELECT id, sum(quantity) FILTER (WHERE car_model IN ('Honda Civic', 'Honda CRV')) AS `sum(quantity)`
        FROM dealer GROUP BY id
    """)
    return sums.writeStream.format("memory").outputMode("update")


@listed(JOBS, inputs={"person": PERSONS}, mode="append", sink="memory")
def sql_two_lateral_views(spark: SparkSession, read: Read) -> Any:
    read("person").createOrReplaceTempView("person")
    return spark.sql("""
        SELECT * FROM person
        LATERAL VIEW EXPLODE(ARRAY(30, 60)) tableName AS c_age
        LATERAL VIEW EXPLODE(ARRAY(40, 80)) AS d_age
    """).writeStream.format("memory")


@listed(JOBS, inputs={"person": PERSONS}, mode="complete", sink="memory")
def sql_counts_of_lateral_view(spark: SparkSession, read: Read) -> Any:
    read("person").createOrReplaceTempView("person")
    counts = spark.sql("""
        SELECT c_age, COUNT(1) FROM person
        LATERAL VIEW EXPLODE(ARRAY(30, 60)) AS c_age
        LATERAL VIEW EXPLODE(ARRAY(40, 80)) AS d_age
        GROUP BY c_age
    """)
    return counts.writeStream.format("memory").outputMode("complete")


@listed(
    JOBS,
    inputs={"t1": KEYED},
    tables={"t2": fixed("key int, word string", [{"key": n, "word": f"w{n}"} for n in range(1, 6)])},
    mode="append",
    sink="memory",
)
def sql_join_with_broadcast_hint(spark: SparkSession, read: Read) -> Any:
    read("t1").createOrReplaceTempView("t1")
    read.static("t2").createOrReplaceTempView("t2")
    return spark.sql("""
        SELECT /*+ BROADCAST(t2) */ t1.key, name, t2.key AS other, word FROM t1 INNER JOIN t2 ON t1.key = t2.key
    """).writeStream.format("memory")


@listed(JOBS, inputs={"number1": NUMBERS, "number2": NUMBERS}, mode="append", sink="memory")
def sql_union_all_of_numbers(spark: SparkSession, read: Read) -> Any:
    for name in ("number1", "number2"):
        read(name).createOrReplaceTempView(name)
    return spark.sql("(SELECT c FROM number1) UNION ALL (SELECT c FROM number2)").writeStream.format("memory")
