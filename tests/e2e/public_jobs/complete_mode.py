"""Jobs that write the whole result each time, often sorted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyspark.sql import functions as F

from .parsing import TAXI, from_kafka
from .shape import Frames, Shape, public_job

SHAPES: list[Shape] = []
_SPARK = "github.com/apache/spark: examples/src/main/python/sql/streaming"
_GUIDE = "github.com/databricks/Spark-The-Definitive-Guide: code/Streaming-Chapter_22"
_ZOOMCAMP = (
    "github.com/DataTalksClub/data-engineering-zoomcamp: 06-streaming/python/streams-example/pyspark/streaming.py"
)
_SAGAR = "github.com/sagarlakshmipathy/spark-streaming-pyspark: src/jobs"
_JANANI = "github.com/prashanthsriram145/series-pyspark-structured-streaming-janani"
_COMPLETE = {"needs": ("complete",)}
_COMPLETE_AND_TAIL = {"needs": ("complete", "tail")}


@public_job(SHAPES, f"{_SPARK}/structured_network_wordcount.py", "complete", "console", **_COMPLETE)
def word_count(frames: Frames) -> Any:
    """Socket; explode(split(frame.value)); key word; count."""
    lines = frames.stream("lines")
    return lines.select(F.explode(F.split(lines.value, " ")).alias("word")).groupBy("word").count()


@public_job(SHAPES, f"{_SPARK}/structured_kafka_wordcount.py", "complete", "console", runs_as="word_count", **_COMPLETE)
def word_count_of_kafka(frames: Frames) -> Any:
    """Kafka; selectExpr cast; explode(split(frame.value)); key word; count."""
    lines = frames.stream("kafka lines").selectExpr("CAST(value AS STRING)")
    return lines.select(F.explode(F.split(lines.value, " ")).alias("word")).groupBy("word").count()


@public_job(
    SHAPES,
    f"{_SPARK}/structured_network_wordcount_windowed.py",
    "complete",
    "console",
    runs_as="sales_by_day",
    **_COMPLETE,
)
def windowed_word_count(frames: Frames) -> Any:
    """Socket; explode(split); no watermark; keys sliding window and word; count; then orderBy the window."""
    lines = frames.stream("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("word"), lines.timestamp)
    return words.groupBy(F.window(words.timestamp, "60 seconds", "30 seconds"), words.word).count().orderBy("window")


@public_job(
    SHAPES,
    "github.com/samarkk/spark_python: scripts/structured__kafka_wordcount.py",
    "complete",
    "console",
    runs_as="sales_by_day",
    needs=("complete", "frame methods"),
)
def windowed_word_count_of_kafka(frames: Frames) -> Any:
    """Kafka; selectExpr; toDF; explode(split); keys sliding window of 4 s by 2 s and word; count."""
    lines = frames.stream("kafka lines").selectExpr("cast(value as string) word", "timestamp")
    words = lines.toDF("word", "timestamp").select(F.explode(F.split("word", " ")).alias("word"), "timestamp")
    return words.groupBy(F.window("timestamp", "4 seconds", "2 seconds"), "word").count()


def _activity(frames: Frames) -> Any:
    return frames.stream("activity").selectExpr(
        "*", "cast(cast(Creation_Time as double)/1000000000 as timestamp) as event_time"
    )


@public_job(SHAPES, _GUIDE, "complete", "memory", **_COMPLETE)
def events_per_window_and_user(frames: Frames) -> Any:
    """JSON files; selectExpr('*', cast); no watermark; keys window of 10 min and user; count."""
    return _activity(frames).groupBy(F.window(F.col("event_time"), "10 minutes"), "User").count()


@public_job(SHAPES, _GUIDE, "complete", "memory", runs_as="events_per_window_and_user", **_COMPLETE)
def events_per_window(frames: Frames) -> Any:
    """JSON files; selectExpr('*', cast); watermark 30 min; key sliding window of 10 min by 5 min only; count."""
    late = _activity(frames).withWatermark("event_time", "30 minutes")
    return late.groupBy(F.window(F.col("event_time"), "10 minutes", "5 minutes")).count()


@public_job(
    SHAPES, "github.com/evergreencircle/pyspark: chapter23.py", "complete", "memory", runs_as="word_count", **_COMPLETE
)
def events_per_activity(frames: Frames) -> Any:
    """JSON files; key gt; count."""
    return frames.stream("activity").groupBy("gt").count()


@public_job(
    SHAPES,
    _ZOOMCAMP,
    "complete",
    "console",
    trigger={"processingTime": "5 seconds"},
    runs_as="word_count",
    **_COMPLETE,
)
def rides_per_vendor(frames: Frames) -> Any:
    """Kafka text; split(frame['value']) and a withColumn with cast per column; groupBy of a list; count."""
    return _rides(frames).groupBy(["vendor_id"]).count()


def _rides(frames: Frames) -> Any:
    texts = frames.stream("rides as text").selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    parts = F.split(texts["value"], ", ")
    for place, (name, kind) in enumerate((("vendor_id", "int"), ("tpep_pickup_datetime", "timestamp"))):
        texts = texts.withColumn(name, parts.getItem(place).cast(kind))
    return texts.select(["vendor_id", "tpep_pickup_datetime"])


@public_job(SHAPES, _ZOOMCAMP, "complete", "kafka", needs=("complete", "tail", "complete to a format"))
def rides_per_window_as_messages(frames: Frames) -> Any:
    """Kafka text; keys sliding window of 10 min by 5 min and frame.vendor_id; count; then withColumn(concat_ws),
    withColumnRenamed, a cast of frame.key, and select; the whole result goes to Kafka each time."""
    rides = _rides(frames)
    window = F.window(timeColumn=rides.tpep_pickup_datetime, windowDuration="10 minutes", slideDuration="5 minutes")
    counts = rides.groupBy(window, rides.vendor_id).count()
    messages = counts.withColumn("value", F.concat_ws(", ", "count")).withColumnRenamed("vendor_id", "key")
    return messages.withColumn("key", messages.key.cast("string")).select(["key", "value"])


@public_job(
    SHAPES,
    "github.com/ak811/spark-structured-streaming: task2.py",
    "complete",
    "foreachBatch",
    runs_as="trending_hashtags",
    **_COMPLETE,
)
def fares_per_driver(frames: Frames) -> Any:
    """Socket JSON; key driver; sum and avg; the function writes CSV."""
    taxis = frames.stream("taxis").select(F.from_json(F.col("value"), TAXI).alias("json")).select("json.*")
    return taxis.groupBy("driver_id").agg(
        F.sum("fare_amount").alias("total_fare"), F.avg("distance_km").alias("avg_distance")
    )


@public_job(SHAPES, f"{_SAGAR}/part6advanced/App1EventTimeWindows.py", "complete", "console", ordered=True, **_COMPLETE)
def sales_by_day(frames: Frames) -> Any:
    """JSON files; keys window of 1 day under an alias and item; sum; then orderBy the window's start and the sum
    descending, nulls last."""
    sums = (
        frames.stream("purchases")
        .groupBy(F.window(F.col("time"), "1 day").alias("day"), F.col("item"))
        .agg(F.sum(F.col("quantity")).alias("quantity_sold"))
    )
    return sums.orderBy(F.col("day.start"), F.col("quantity_sold").desc_nulls_last())


@public_job(
    SHAPES,
    f"{_SAGAR}/part2structuredstreaming/App2StreamingAggregations.py",
    "complete",
    "console",
    runs_as="mean_altitude",
    needs=("complete", "aggregate in select"),
)
def lines_so_far(frames: Frames) -> Any:
    """Socket; select of count('*'), which makes one group of all rows."""
    return frames.stream("lines").select(F.count(F.col("*")).alias("lineCount"))


@public_job(
    SHAPES,
    "github.com/PaulaGili/Real-Time-Air-Traffic-Data-Analysis-with-Spark-Structured-Streaming: Adsbx/kpi1.py",
    "complete",
    "console",
    needs=("complete", "aggregate in select"),
)
def mean_altitude(frames: Frames) -> Any:
    """Socket JSON; explode of an array of structs; filter on nested fields; select of avg."""
    planes = _planes(frames)
    near = planes.filter((F.col("plane.lat") >= 40.29) & (F.col("plane.lon") <= 3.57))
    return near.select(F.avg(F.col("plane.alt_baro")).alias("avg_altitude"))


def _planes(frames: Frames) -> Any:
    schema = (
        "ac array<struct<flight: string, lat: double, lon: double, alt_baro: double, category: string>>, now double"
    )
    parsed = frames.stream("planes").select(F.from_json(F.col("value"), schema).alias("parsed"))
    return parsed.select(F.explode(F.col("parsed.ac")).alias("plane"))


@public_job(
    SHAPES,
    "github.com/PaulaGili/Real-Time-Air-Traffic-Data-Analysis-with-Spark-Structured-Streaming: Adsbx/ejercicio4.py",
    "complete",
    "console",
    runs_as="average_prices_per_day",
    **_COMPLETE,
)
def planes_per_category(frames: Frames) -> Any:
    """Socket JSON; explode; filter; withColumn of a Python UDF; key category; count."""
    distance = F.udf(lambda lat, lon: abs(lat - 41.0) + abs(lon - 2.0), "double")
    planes = _planes(frames).select(F.col("plane.category").alias("category"), "plane.lat", "plane.lon")
    far = planes.filter(F.col("category").isNotNull()).withColumn("distance", distance(F.col("lat"), F.col("lon")))
    return far.groupBy("category").count()


@public_job(
    SHAPES,
    "github.com/viveksh212/pyspark-structured-streaming: src/streaming/streamhandler.py",
    "complete",
    "console",
    trigger={"processingTime": "10 seconds"},
    runs_as="trending_hashtags",
    **_COMPLETE,
)
def fitness(frames: Frames) -> Any:
    """Kafka JSON; key profile; avg and sum of columns of text."""
    texts = frames.stream("fitness").selectExpr("CAST(value AS STRING)")
    schema = "device_id string, profile_name string, steps string, heartbeat string"
    parsed = texts.withColumn("jsonData", F.from_json(F.col("value"), schema)).select("jsonData.*")
    return parsed.groupBy("profile_name").agg(
        F.avg("heartbeat").alias("average_heartbeat"), F.sum("steps").alias("total_steps")
    )


@public_job(
    SHAPES,
    "github.com/devarshpatel1506/Real-Time-Streaming-Kafka-Debezium-Spark-Streaming: spark-streaming-consumer.py",
    "complete",
    "foreachBatch",
    **_COMPLETE,
)
def phone_statistics(frames: Frames) -> Any:
    """Kafka JSON; withColumn with casts; DataFrame.agg of one group: count and max; the function inserts into a
    database."""
    phones = from_kafka(frames.stream("phones"), "id string, brand string, ram string, rom string, price string")
    for name in ("ram", "rom", "price"):
        phones = phones.withColumn(name, F.col(name).cast("double"))
    return phones.agg(
        F.count("id").alias("total_phones"), F.max("price").alias("max_price"), F.max("ram").alias("max_ram")
    )


@public_job(
    SHAPES,
    f"{_JANANI}: m4/demo-10-watermarks_v1.py",
    "complete",
    "console",
    runs_as="sales_by_day",
    **_COMPLETE_AND_TAIL,
)
def ratings_by_time_of_arrival(frames: Frames) -> Any:
    """CSV files; withColumn(current_timestamp) with a watermark of 1 min; keys sliding window of 1 min by 30 s over
    frame.column, city and branch; agg of a dict; then withColumnRenamed and orderBy."""
    sales = frames.stream("sales").withColumn("ingestion_timestamp", F.current_timestamp())
    late = sales.withWatermark("ingestion_timestamp", "1 minutes")
    window = F.window(sales.ingestion_timestamp, "1 minutes", "30 seconds")
    ratings = late.groupBy(window, sales.City, sales.Branch).agg({"Rating": "avg"})
    return ratings.withColumnRenamed("avg(Rating)", "avg_rating").orderBy("avg_rating", "City")


def _moment(date: str, time: str) -> datetime:
    return datetime.strptime(f"{date} {time}", "%m/%d/%Y %H:%M")


@public_job(SHAPES, f"{_JANANI}: m4/demo-09-udfs_v3.py", "complete", "console", ordered=True, **_COMPLETE)
def average_prices_per_day(frames: Frames) -> Any:
    """CSV files; withColumn of a Python UDF that makes the event time of two texts; keys window of 1 day over
    frame.column and a column with a space; agg of a dict; then orderBy of result.window.start and that column."""
    moment = F.udf(_moment, "timestamp")
    sales = frames.stream("sales").withColumn("Datetime", moment("Date", "Time"))
    means = sales.groupBy(F.window(sales.Datetime, "1 day"), "Product line").agg({"Unit price": "avg"})
    return means.orderBy(means.window.start, "Product line")


def _hashtags(text: str | None) -> list[str]:
    return [word for word in (text or "").split(" ") if "#" in word] or ["no tags"]


@public_job(
    SHAPES,
    "github.com/gyan42/spark-streaming-playground: src/ssp/spark/streaming/analytics/trending_hashtags.py",
    "complete",
    "foreachBatch",
    **_COMPLETE,
)
def trending_hashtags(frames: Frames) -> Any:
    """Kafka JSON; explode of a Python UDF; key hashtag; count; then sort descending; the function overwrites a table of
    a database."""
    tweets = from_kafka(frames.stream("tweets"), "text string")
    tags = tweets.withColumn("hashtag", F.explode(F.udf(_hashtags, "array<string>")(F.col("text"))))
    return tags.groupBy("hashtag").count().sort(F.col("count").desc())


@public_job(
    SHAPES,
    "github.com/IamMayankThakur/test-bigdata: adminmgr/media/code/A3/task1/BD_0856_1373_1590_K3TbeIf.py",
    "complete",
    "console",
    **_COMPLETE_AND_TAIL,
)
def five_hashtags(frames: Frames) -> Any:
    """CSV files; explode(split); key hashtag; count; then sort descending, limit 5, and select."""
    tweets = frames.stream("tweets as files")
    chosen = tweets.select(tweets.Hashtags)
    tags = chosen.select(F.explode(F.split(chosen.Hashtags, ",")).alias("Hashtags"))
    return tags.groupBy("Hashtags").count().sort(F.desc("count")).limit(5).select("Hashtags", "count")


@public_job(
    SHAPES,
    "github.com/hortonworks-sk/spark-kafka: pyspark_aggregations.py",
    "complete",
    "console",
    runs_as="events_per_window_and_user",
    **_COMPLETE,
)
def sums_per_window(frames: Frames) -> Any:
    """Rate source; no watermark; key window of 5 s only; GroupedData.sum of all numbers."""
    return frames.stream("rate").groupBy(F.window("timestamp", "5 seconds", "5 seconds")).sum()


@public_job(
    SHAPES,
    "github.com/SUDHA489/DataEngineer_Training: week3/day11/withwatermark.py",
    "complete",
    "console",
    runs_as="events_per_window_and_user",
    **_COMPLETE_AND_TAIL,
)
def counts_with_watermark(frames: Frames) -> Any:
    """Rate source; withColumn(when/otherwise) makes some rows older; watermark 5 s; key window of 10 s only; count;
    then withColumnRenamed."""
    older = F.when(F.col("value") % 3 == 0, F.expr("timestamp - INTERVAL 5 seconds")).otherwise(F.col("timestamp"))
    late = frames.stream("rate").withColumn("eventTime", older).withWatermark("eventTime", "5 seconds")
    counts = late.groupBy(F.window(F.col("eventTime"), "10 seconds")).count()
    return counts.withColumnRenamed("count", "count_with_watermark")


@public_job(
    SHAPES,
    "github.com/cartershanklin/pyspark-cheatsheet: windowed structured stream over CSV files",
    "complete",
    "console",
    runs_as="sales_by_day",
    needs=("complete", "tail", "frame methods"),
)
def means_per_manufacturer(frames: Frames) -> Any:
    """CSV files; withColumn(current_timestamp); keys window of 1 min over frame.column and a column; avg and count;
    then coalesce(10) and orderBy of window and key."""
    cars = frames.stream("cars").withColumn("timestamp", F.current_timestamp())
    means = cars.groupBy(F.window(cars.timestamp, "1 minute"), "car").agg(
        F.avg("price").alias("avg_price"), F.avg("timestamp").alias("avg_timestamp"), F.count("year").alias("count")
    )
    return means.coalesce(10).orderBy("window", "car")
