"""Second list: inner joins of streams"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ..job import Job, Read
from ..listed import listed
from ..making import again, epoch, fixed, iso, series, socket, spaced, topic
from .listed_complete import LEGACY, TIME_TEXT, time_text
from .listed_dedup import clicks_of
from .listed_windows import CLICKS

JOBS: list[Job] = []
_STAMP = "yyyy-MM-dd HH:mm:ss"


@listed(
    JOBS,
    inputs={
        "bands": socket(
            lambda n, s, random: {"id": n % 40, "name": f"band {n}", "hometown": "Leeds", "year": 1960 + n % 30}
        ),
        "guitarists": socket(
            lambda n, s, random: {"id": n, "name": f"player {n}", "guitars": [1, n % 3], "band": random.randint(1, 90)}
        ),
    },
    mode="append",
    sink="console",
)
def bands_and_guitarists(spark: SparkSession, read: Read) -> Any:
    bands = (
        read("bands")
        .select(F.from_json(F.col("value"), "id bigint, name string, hometown string, year bigint").alias("band"))
        .selectExpr("band.id as id", "band.name as name", "band.hometown as hometown", "band.year as year")
    )
    players = (
        read("guitarists")
        .select(
            F.from_json(F.col("value"), "id bigint, name string, guitars array<bigint>, band bigint").alias("player")
        )
        .selectExpr("player.id as id", "player.name as name", "player.guitars as guitars", "player.band as band")
    )
    return bands.join(players, players["band"] == bands["id"]).writeStream.format("console").outputMode("append")


def _shown(read: Read, name: str, number: str) -> Any:
    schema = f"{number} string, CreatedTime string, Campaigner string"
    return read(name).select(F.from_json(F.col("value").cast("string"), schema).alias("value"))


def _ad(number: str) -> dict[str, Any]:
    return {
        "impressions": topic(
            lambda n, s, random: {number: f"{n}", "CreatedTime": spaced(s), "Campaigner": f"c{n % 3}"}
        ),
        "clicks": topic(lambda n, s, random: {number: f"{max(0, n - random.randint(0, 9))}", "CreatedTime": spaced(s)}),
    }


@listed(JOBS, inputs=_ad("InventoryID"), mode="append", sink="console")
def impressions_and_clicks_without_watermark(spark: SparkSession, read: Read) -> Any:
    impressions = (
        _shown(read, "impressions", "InventoryID")
        .selectExpr("value.InventoryID as ImpressionID", "value.CreatedTime", "value.Campaigner")
        .withColumn("ImpressionTime", F.to_timestamp(F.col("CreatedTime"), _STAMP))
        .drop("CreatedTime")
    )
    clicks = (
        _shown(read, "clicks", "InventoryID")
        .selectExpr("value.InventoryID as ClickID", "value.CreatedTime")
        .withColumn("ClickTime", F.to_timestamp(F.col("CreatedTime"), _STAMP))
        .drop("CreatedTime")
    )
    joined = impressions.join(clicks, F.expr("ImpressionID == ClickID"), "inner")
    return joined.writeStream.format("console").outputMode("append").trigger(processingTime="1 minute")


@listed(JOBS, inputs=_ad("ImpressionID"), mode="append", sink="console")
def impressions_and_clicks_with_watermarks(spark: SparkSession, read: Read) -> Any:
    impressions = (
        _shown(read, "impressions", "ImpressionID")
        .selectExpr("value.ImpressionID", "value.CreatedTime", "value.Campaigner")
        .withColumn("ImpressionTime", F.to_timestamp(F.col("CreatedTime"), _STAMP))
        .drop("CreatedTime")
        .withWatermark("ImpressionTime", "30 minute")
    )
    clicks = (
        _shown(read, "clicks", "ImpressionID")
        .selectExpr("value.ImpressionID as ClickID", "value.CreatedTime")
        .withColumn("ClickTime", F.to_timestamp(F.col("CreatedTime"), _STAMP))
        .drop("CreatedTime")
        .withWatermark("ClickTime", "30 minute")
    )
    joined = impressions.join(clicks, F.expr("ImpressionID == ClickID"), "inner")
    return joined.writeStream.format("console").outputMode("append").trigger(processingTime="1 minute")


@listed(
    JOBS,
    inputs={
        "temperatures": series(
            "temp_location_id string, temp_taken_time timestamp, temperature double",
            lambda n, s, random: {
                "temp_location_id": f"room{random.randint(1, 5)}",
                "temp_taken_time": iso(s),
                "temperature": random.randint(15, 40),
            },
            step=600,
        ),
        "loads": series(
            "load_location_id string, load_taken_time timestamp, load int",
            lambda n, s, random: {
                "load_location_id": f"room{random.randint(1, 5)}",
                "load_taken_time": iso(s + 10),
                "load": random.randint(1, 99),
            },
            step=600,
        ),
    },
    mode="append",
    sink="console",
)
def temperature_and_load(spark: SparkSession, read: Read) -> Any:
    temperatures = read("temperatures").withWatermark("temp_taken_time", "1 hour")
    loads = read("loads").withWatermark("load_taken_time", "2 hours")
    joined = temperatures.join(
        loads,
        F.expr(
            """temp_location_id = load_location_id AND
               load_taken_time >= temp_taken_time AND
               load_taken_time <= temp_taken_time + interval 1 hour"""
        ),
    )
    return joined.writeStream.outputMode("append").format("console")


@listed(
    JOBS,
    inputs={
        "clicks": again(CLICKS, every=5),
        "promotions": topic(
            lambda n, s, random: {
                "promo_id": f"promo{n}",
                "product_id": f"p{random.randint(1, 5)}",
                "product_name": "x",
                "discount_percent": random.randint(1, 30),
                "start_time": iso(s - 600),
                "end_time": iso(s + 1200),
                "timestamp": iso(s),
            },
            step=97,
        ),
    },
    mode="append",
    sink="console",
)
def views_during_promotions(spark: SparkSession, read: Read) -> Any:
    schema = (
        "promo_id string, product_id string, product_name string, discount_percent int, start_time timestamp,"
        " end_time timestamp, timestamp timestamp"
    )
    clicks = (
        clicks_of(read, "clicks")
        .filter(F.col("event_type") == "view")
        .dropDuplicates(["event_id"])
        .withWatermark("timestamp", "30 minutes")
        .alias("c")
    )
    promotions = (
        read("promotions")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json(F.col("value"), schema).alias("data"))
        .select("data.*")
        .withWatermark("timestamp", "30 minutes")
        .alias("p")
    )
    joined = clicks.join(
        promotions,
        F.expr(
            """c.product_id = p.product_id AND
               c.timestamp >= p.start_time - interval 30 minutes AND
               c.timestamp <= p.end_time AND
               c.timestamp >= p.timestamp - interval 30 minutes AND
               c.timestamp <= p.timestamp + interval 30 minutes"""
        ),
        "inner",
    )
    found = joined.select(
        F.col("c.user_id").alias("user_id"),
        F.col("c.product_name").alias("product"),
        F.col("c.timestamp").alias("view_time"),
        F.col("p.promo_id").alias("promo_id"),
        F.col("p.discount_percent").alias("discount"),
        F.col("p.start_time").alias("promo_start"),
    )
    return found.writeStream.outputMode("append").format("console").trigger(processingTime="15 seconds")


@listed(
    JOBS,
    inputs={
        "results": topic(
            lambda n, s, random: {"result": random.randint(1, 99), "ts": epoch(s) * 1000},
            key=lambda n, s, random: f"k{random.randint(1, 4)}",
        ),
        "values": topic(
            lambda n, s, random: {"strategy": "max", "value": random.randint(1, 99), "ts": epoch(s + 10) * 1000},
            key=lambda n, s, random: f"k{random.randint(1, 4)}",
        ),
    },
    mode="append",
    sink="kafka",
)
def results_merged_by_time(spark: SparkSession, read: Read) -> Any:
    c = (
        read("results")
        .selectExpr("CAST(key AS STRING)", "CAST(value AS STRING) AS json")
        .select("key", F.from_json("json", "result int, ts bigint").alias("c"))
        .select(F.col("key"), F.col("c.result").alias("c_val"), F.to_timestamp(F.col("c.ts") / 1000.0).alias("c_ts"))
        .withWatermark("c_ts", "30 minutes")
        .alias("c")
    )
    d = (
        read("values")
        .selectExpr("CAST(key AS STRING)", "CAST(value AS STRING) AS json")
        .select("key", F.from_json("json", "strategy string, value int, ts bigint").alias("d"))
        .select(F.col("key"), F.col("d.value").alias("d_val"), F.to_timestamp(F.col("d.ts") / 1000.0).alias("d_ts"))
        .withWatermark("d_ts", "30 minutes")
        .alias("d")
    )
    joined = c.join(
        d,
        F.expr(
            """c.key = d.key AND
               d.d_ts BETWEEN c.c_ts - interval 5 minutes AND c.c_ts + interval 5 minutes"""
        ),
        "inner",
    ).select(
        F.col("c.key").alias("key"),
        F.to_json(F.struct(F.col("c_val"), F.col("d_val"), F.greatest(F.col("c_ts"), F.col("d_ts")).alias("ts"))).alias(
            "value"
        ),
    )
    return joined.writeStream.format("kafka").option("topic", "D_input_ready").outputMode("append")


def _ads(read: Read, name: str, schema: str, number: str, time: str) -> Any:
    return (
        read(name)
        .withColumn("ad", F.from_json(F.col("value").cast("string"), schema))
        .selectExpr("ad.*")
        .withColumnRenamed("adId", number)
        .withColumn(time, F.unix_timestamp("timestamp", TIME_TEXT).cast("timestamp"))
        .drop("timestamp")
    )


@listed(
    JOBS,
    inputs={
        "impressions": topic(
            lambda n, s, random: {
                "adId": f"{n}",
                "timestamp": time_text(s),
                "publisher": "p",
                "advertiser": "a",
                "website": "w",
                "geo": "FR",
                "bid": "0.1",
                "cookie": "c",
            }
        ),
        "clicks": topic(
            lambda n, s, random: {"adId": f"{max(0, n - random.randint(0, 9))}", "timestamp": time_text(s)}
        ),
    },
    mode="append",
    sink="console",
    session=LEGACY,
)
def ads_with_clicks(spark: SparkSession, read: Read) -> Any:
    impression = (
        "adId string, timestamp string, publisher string, advertiser string, website string, geo string, bid string,"
        " cookie string"
    )
    impressions = _ads(read, "impressions", impression, "impressionAdId", "impressionTime")
    clicks = _ads(read, "clicks", "adId string, timestamp string", "clickAdId", "clickTime")
    joined = impressions.withWatermark("impressionTime", "10 minutes").join(
        clicks.withWatermark("clickTime", "10 minutes"),
        F.expr(
            """clickAdId = impressionAdId AND
               clickTime >= impressionTime AND
               clickTime <= impressionTime + interval 5 minutes"""
        ),
    )
    return joined.writeStream.queryName("Ad_Impression_Click_Console").format("console").outputMode("append")


_LONS = ("-73.98", "-73.86", "-72.00")
_BOXES = {"Harlem": (-73.99, -73.9), "Queens": (-73.9, -73.7)}


@listed(
    JOBS,
    inputs={
        "rides": topic(
            lambda n, s, random: ",".join(
                (
                    f"{max(0, n - random.randint(0, 9))}",
                    random.choice(("END", "START")),
                    spaced(s),
                    spaced(s - 900),
                    random.choice(_LONS),
                    "40.75",
                    random.choice(_LONS[:2]),
                    "40.80",
                    "2",
                    "7",
                    f"{n % 5}",
                )
            )
        ),
        "fares": topic(
            lambda n, s, random: f"{n},7,{n % 5},{spaced(s)},CSH,{random.randint(0, 5)},0,{random.randint(5, 60)}"
        ),
    },
    mode="append",
    sink="console",
)
def finished_rides_with_fares(spark: SparkSession, read: Read) -> Any:
    def parsed(name: str, schema: str) -> Any:
        texts = read(name).selectExpr("CAST(value AS STRING)")
        fields = F.split(texts["value"], ",")
        for place, column in enumerate(schema.split(", ")):
            named, kind = column.split(" ")
            texts = texts.withColumn(named, fields.getItem(place).cast(kind))
        return texts.select([column.split(" ")[0] for column in schema.split(", ")])

    rides = parsed(
        "rides",
        "rideId bigint, isStart string, endTime timestamp, startTime timestamp, startLon float, startLat float,"
        " endLon float, endLat float, passengerCnt smallint, taxiId bigint, driverId bigint",
    )
    fares = parsed(
        "fares",
        "rideId bigint, taxiId bigint, driverId bigint, startTime timestamp, paymentType string, tip float,"
        " tolls float, totalFare float",
    )
    inside = rides.filter(
        (F.col("startLon") >= -74.05)
        & (F.col("startLon") <= -73.7)
        & (F.col("startLat") >= 40.5)
        & (F.col("startLat") <= 41.0)
        & (F.col("endLon") >= -74.05)
        & (F.col("endLon") <= -73.7)
        & (F.col("endLat") >= 40.5)
        & (F.col("endLat") <= 41.0)
    ).filter(F.col("isStart") == "END")
    paid = fares.selectExpr("rideId AS rideId_fares", "startTime", "totalFare", "tip").withWatermark(
        "startTime", "30 minutes"
    )
    driven = inside.selectExpr(
        "rideId", "endTime", "driverId", "taxiId", "startLon", "startLat", "endLon", "endLat"
    ).withWatermark("endTime", "30 minutes")
    joined = paid.join(
        driven,
        F.expr(
            """rideId_fares = rideId AND
               endTime > startTime AND
               endTime <= startTime + interval 2 hours"""
        ),
    ).drop(F.col("rideId_fares"))
    neighbourhood = F.udf(_neighbourhood, "string")
    named = joined.withColumn("stopNbhd", neighbourhood(F.col("endLon"), F.col("endLat"))).withColumn(
        "startNbhd", neighbourhood(F.col("startLon"), F.col("startLat"))
    )
    return named.writeStream.queryName("TipsInConsole").format("console").outputMode("append")


def _neighbourhood(lon: float, lat: float) -> str:
    return next((name for name, (west, east) in _BOXES.items() if west <= lon < east), "Other")


@listed(
    JOBS,
    inputs={
        "sexes": socket(lambda n, s, random: f"name{random.randint(1, 70)},{'fm'[n % 2]},{spaced(s)}"),
        "ages": socket(lambda n, s, random: f"name{random.randint(1, 70)},{random.randint(9, 70)},{spaced(s)}"),
    },
    mode="append",
    sink="console",
)
def names_joined_without_watermark(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    sexes = read("sexes").select(
        tokens[0].alias("name"), tokens[1].alias("sex"), tokens[2].cast("timestamp").alias("ts1")
    )
    ages = read("ages").select(
        tokens[0].alias("name"), tokens[1].cast("int").alias("age"), tokens[2].cast("timestamp").alias("ts2")
    )
    joined = sexes.join(ages, "name")
    return joined.writeStream.outputMode("append").format("console").trigger(processingTime="0 seconds")


@listed(
    JOBS,
    inputs={
        side: series(
            "timestamp timestamp, key string, value int",
            lambda n, s, random: {"timestamp": iso(s), "key": f"k{random.randint(1, 3)}", "value": n},
            step=3,
        )
        for side in ("left", "right")
    },
    mode="append",
    sink="console",
)
def join_with_alias_before_watermark(spark: SparkSession, read: Read) -> Any:
    left = read("left").alias("left").withWatermark("timestamp", "10 seconds")
    right = read("right").alias("right").withWatermark("timestamp", "5 seconds")
    joined = left.join(
        right,
        F.expr(
            "left.timestamp >= right.timestamp - interval 5 seconds"
            " AND left.timestamp <= right.timestamp + interval 5 seconds"
            " AND left.key = right.key"
        ),
    )
    return joined.writeStream.outputMode("append").format("console")


def companies(read: Read) -> Any:
    """Names of companies and when they came."""
    return read("companies").select(
        F.col("value").cast("string").alias("companyName"), F.col("timestamp").alias("companyTradingTime")
    )


def traded(read: Read) -> Any:
    """Stocks and when they came."""
    schema = "stockName string, tradingType string, price double"
    return (
        read("stocks")
        .select(
            F.from_json(F.col("value").cast("string"), schema).alias("value"),
            F.col("timestamp").alias("stockInputTime"),
        )
        .select("value.*", "stockInputTime")
    )


TRADED = {
    "companies": topic(lambda n, s, random: f"company{random.randint(1, 6)}", step=8),
    "stocks": topic(
        lambda n, s, random: {
            "stockName": f"company{random.randint(1, 6)}",
            "tradingType": "BUY",
            "price": random.randint(1, 99),
        },
        step=8,
    ),
}


@listed(JOBS, inputs=TRADED, mode="append", sink="console")
def stocks_of_companies(spark: SparkSession, read: Read) -> Any:
    joined = traded(read).join(
        companies(read),
        F.expr(
            "companyName = stockName AND stockInputTime >= companyTradingTime"
            " AND stockInputTime <= companyTradingTime + interval 20 seconds"
        ),
    )
    return joined.writeStream.format("console").option("truncate", False)


def _american(second: int) -> str:
    day, clock = spaced(second).split(" ")
    year, month, date = day.split("-")
    return f"{month}/{date}/{year}, {clock}"


@listed(
    JOBS,
    inputs={
        "users": topic(
            lambda n, s, random: {
                "id": n,
                "name": "x",
                "age": random.randint(12, 70),
                "gender": "F",
                "country": "USA",
                "timestamp": _american(s),
            }
        ),
        "events": topic(
            lambda n, s, random: {
                "user_id": max(0, n - random.randint(0, 30)),
                "event_type": random.choice(("login", "logout")),
                "event_time": _american(s),
                "processing_time": _american(s),
            }
        ),
    },
    mode="append",
    sink="delta",
    session={"spark.sql.streaming.statefulOperator.allowMultiple": "false"},
)
def events_with_users_late_watermark(spark: SparkSession, read: Read) -> Any:
    pattern = "MM/dd/yyyy, HH:mm:ss"
    user = "id int, name string, age int, gender string, country string, timestamp string"
    event = "user_id int, event_type string, event_time string, processing_time string"
    users = read("users").withColumn("value", F.from_json(F.col("value").cast("STRING"), user))
    users = users.select(
        F.col("value.id").alias("id"),
        F.col("value.name").alias("name"),
        F.col("value.age").alias("age"),
        F.col("value.gender").alias("gender"),
        F.col("value.country").alias("country"),
        F.to_timestamp(F.col("value.timestamp"), pattern).alias("timestamp"),
    )
    events = read("events").withColumn("value", F.from_json(F.col("value").cast("STRING"), event))
    events = (
        events.select(
            F.col("value.user_id").alias("user_id"),
            F.col("value.event_type").alias("event_type"),
            F.col("value.event_time").alias("event_time"),
            F.col("value.processing_time").alias("processing_time"),
        )
        .withColumn("event_time", F.to_timestamp(F.col("event_time"), pattern))
        .withColumn("processing_time", F.to_timestamp(F.col("processing_time"), pattern))
    )
    joined = (
        events.join(users.withWatermark("timestamp", "10 minutes"), events.user_id == users.id, "inner")
        .withWatermark("event_time", "1 minutes")
        .drop(users.id)
    )
    return joined.writeStream.format("delta").outputMode("append")


_LIFE = "Country string, Year string, Status string, LifeExpectancy double"
_GDP = "Country string, Year string, GDP double, Population double"


def _country(n: int, **more: Any) -> dict[str, Any]:
    return {"Country": ("Albania", "Brazil", "Chad")[n % 3], "Year": f"{1900 + n // 3}", **more}


@listed(
    JOBS,
    inputs={
        "life": series(
            _LIFE,
            lambda n, s, random: _country(n, Status="Developing", LifeExpectancy=random.randint(40, 85)),
            format="csv",
        )
    },
    tables={"gdp": fixed(_GDP, [_country(n, GDP=n * 10, Population=1000) for n in range(0, 200, 2)])},
    mode="append",
    sink="console",
)
def life_expectancy_joined_twice(spark: SparkSession, read: Read) -> Any:
    life = read("life")
    gdp = read.static("gdp").select("Country", "Year", "GDP")
    expectancy = life.select("Country", "Year", "LifeExpectancy")
    status = life.select("Country", "Year", "Status")
    joined = gdp.join(expectancy, on=["Country", "Year"]).join(status, on=["Country", "Year"])
    return joined.writeStream.outputMode("append").format("console")


@listed(
    JOBS,
    inputs={
        "gdp": series(_GDP, lambda n, s, random: _country(n, GDP=random.randint(1, 99), Population=1000), format="csv"),
        "life": series(
            _LIFE,
            lambda n, s, random: _country(
                max(0, n - random.randint(0, 40)), Status="Developed", LifeExpectancy=random.randint(40, 85)
            ),
            format="csv",
        ),
    },
    mode="append",
    sink="console",
)
def gdp_joined_with_life_expectancy(spark: SparkSession, read: Read) -> Any:
    joined = read("gdp").join(read("life"), on=["Country", "Year"])
    return joined.select("Country", "Year", "GDP", "LifeExpectancy").writeStream.outputMode("append").format("console")
