"""Jobs that write the whole result each time, often sorted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..inputs import inputs
from ..job import Job, Read, public_job
from ..parsing import TAXI, from_kafka

JOBS: list[Job] = []
_SPARK = "github.com/apache/spark: examples/src/main/python/sql/streaming"
_GUIDE = "github.com/databricks/Spark-The-Definitive-Guide: code/Streaming-Chapter_22"
_ZOOMCAMP = (
    "github.com/DataTalksClub/data-engineering-zoomcamp: 06-streaming/python/streams-example/pyspark/streaming.py"
)
_SAGAR = "github.com/sagarlakshmipathy/spark-streaming-pyspark: src/jobs"
_JANANI = "github.com/prashanthsriram145/series-pyspark-structured-streaming-janani"


@public_job(
    JOBS,
    f"{_SPARK}/structured_network_wordcount.py",
    inputs=inputs("lines"),
    mode="complete",
    sink="console",
    replaced=("socket: files", "console sink: collected"),
)
def word_count(spark: SparkSession, read: Read) -> Any:
    """Socket; explode(split(frame.value)); key word; count."""
    lines = read("lines")
    return (
        lines.select(F.explode(F.split(lines.value, " ")).alias("word"))
        .groupBy("word")
        .count()
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_SPARK}/structured_kafka_wordcount.py",
    inputs=inputs("kafka lines"),
    mode="complete",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def word_count_of_kafka(spark: SparkSession, read: Read) -> Any:
    """Kafka; selectExpr cast; explode(split(frame.value)); key word; count."""
    lines = read("kafka lines").selectExpr("CAST(value AS STRING)")
    return (
        lines.select(F.explode(F.split(lines.value, " ")).alias("word"))
        .groupBy("word")
        .count()
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_SPARK}/structured_network_wordcount_windowed.py",
    inputs=inputs("lines"),
    mode="complete",
    sink="console",
    replaced=("socket: files", "console sink: collected"),
)
def windowed_word_count(spark: SparkSession, read: Read) -> Any:
    """Socket; explode(split); no watermark; keys sliding window and word; count; then orderBy the window."""
    lines = read("lines")
    words = lines.select(F.explode(F.split(lines.value, " ")).alias("word"), lines.timestamp)
    return (
        words.groupBy(F.window(words.timestamp, "60 seconds", "30 seconds"), words.word)
        .count()
        .orderBy("window")
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/samarkk/spark_python: scripts/structured__kafka_wordcount.py",
    inputs=inputs("kafka lines"),
    mode="complete",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def windowed_word_count_of_kafka(spark: SparkSession, read: Read) -> Any:
    """Kafka; selectExpr; toDF; explode(split); keys sliding window of 4 s by 2 s and word; count."""
    lines = read("kafka lines").selectExpr("cast(value as string) word", "timestamp")
    words = lines.toDF("word", "timestamp").select(F.explode(F.split("word", " ")).alias("word"), "timestamp")
    return (
        words.groupBy(F.window("timestamp", "4 seconds", "2 seconds"), "word")
        .count()
        .writeStream.outputMode("complete")
        .format("console")
    )


def _activity(read: Read) -> Any:
    return read("activity").selectExpr("*", "cast(cast(Creation_Time as double)/1000000000 as timestamp) as event_time")


@public_job(JOBS, _GUIDE, inputs=inputs("activity"), mode="complete", sink="memory")
def events_per_window_and_user(spark: SparkSession, read: Read) -> Any:
    """JSON files; selectExpr('*', cast); no watermark; keys window of 10 min and user; count."""
    return (
        _activity(read)
        .groupBy(F.window(F.col("event_time"), "10 minutes"), "User")
        .count()
        .writeStream.outputMode("complete")
        .format("memory")
    )


@public_job(JOBS, _GUIDE, inputs=inputs("activity"), mode="complete", sink="memory")
def events_per_window(spark: SparkSession, read: Read) -> Any:
    """JSON files; selectExpr('*', cast); watermark 30 min; key sliding window of 10 min by 5 min only; count."""
    late = _activity(read).withWatermark("event_time", "30 minutes")
    return (
        late.groupBy(F.window(F.col("event_time"), "10 minutes", "5 minutes"))
        .count()
        .writeStream.outputMode("complete")
        .format("memory")
    )


@public_job(
    JOBS, "github.com/evergreencircle/pyspark: chapter23.py", inputs=inputs("activity"), mode="complete", sink="memory"
)
def events_per_activity(spark: SparkSession, read: Read) -> Any:
    """JSON files; key gt; count."""
    return read("activity").groupBy("gt").count().writeStream.outputMode("complete").format("memory")


@public_job(
    JOBS,
    _ZOOMCAMP,
    inputs=inputs("rides as text"),
    mode="complete",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def rides_per_vendor(spark: SparkSession, read: Read) -> Any:
    """Kafka text; split(frame['value']) and a withColumn with cast per column; groupBy of a list; count."""
    return (
        _rides(read)
        .groupBy(["vendor_id"])
        .count()
        .writeStream.outputMode("complete")
        .format("console")
        .trigger(processingTime="5 seconds")
    )


def _rides(read: Read) -> Any:
    texts = read("rides as text").selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    parts = F.split(texts["value"], ", ")
    for place, (name, kind) in enumerate((("vendor_id", "int"), ("tpep_pickup_datetime", "timestamp"))):
        texts = texts.withColumn(name, parts.getItem(place).cast(kind))
    return texts.select(["vendor_id", "tpep_pickup_datetime"])


@public_job(
    JOBS,
    _ZOOMCAMP,
    inputs=inputs("rides as text"),
    mode="complete",
    sink="kafka",
    replaced=("kafka: files", "kafka sink: collected"),
)
def rides_per_window_as_messages(spark: SparkSession, read: Read) -> Any:
    """Kafka text; keys sliding window of 10 min by 5 min and frame.vendor_id; count; then withColumn(concat_ws),
    withColumnRenamed, a cast of frame.key, and select; the whole result goes to Kafka each time."""
    rides = _rides(read)
    window = F.window(timeColumn=rides.tpep_pickup_datetime, windowDuration="10 minutes", slideDuration="5 minutes")
    counts = rides.groupBy(window, rides.vendor_id).count()
    messages = counts.withColumn("value", F.concat_ws(", ", "count")).withColumnRenamed("vendor_id", "key")
    return (
        messages.withColumn("key", messages.key.cast("string"))
        .select(["key", "value"])
        .writeStream.outputMode("complete")
        .format("kafka")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("topic", "results")
    )


@public_job(
    JOBS,
    "github.com/ak811/spark-structured-streaming: task2.py",
    inputs=inputs("taxis"),
    mode="complete",
    sink="foreachBatch",
    replaced=("socket: files", "CSV files: a table in memory"),
)
def fares_per_driver(spark: SparkSession, read: Read) -> Any:
    """Socket JSON; key driver; sum and avg; the function writes CSV."""
    taxis = read("taxis").select(F.from_json(F.col("value"), TAXI).alias("json")).select("json.*")

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.overwrite(batch)

    return (
        taxis.groupBy("driver_id")
        .agg(F.sum("fare_amount").alias("total_fare"), F.avg("distance_km").alias("avg_distance"))
        .writeStream.foreachBatch(write)
        .outputMode("complete")
    )


@public_job(
    JOBS,
    f"{_SAGAR}/part6advanced/App1EventTimeWindows.py",
    inputs=inputs("purchases"),
    mode="complete",
    sink="console",
    ordered=True,
    replaced=("console sink: collected",),
)
def sales_by_day(spark: SparkSession, read: Read) -> Any:
    """JSON files; keys window of 1 day under an alias and item; sum; then orderBy the window's start and the sum
    descending, nulls last."""
    sums = (
        read("purchases")
        .groupBy(F.window(F.col("time"), "1 day").alias("day"), F.col("item"))
        .agg(F.sum(F.col("quantity")).alias("quantity_sold"))
    )
    return (
        sums.orderBy(F.col("day.start"), F.col("quantity_sold").desc_nulls_last())
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    f"{_SAGAR}/part2structuredstreaming/App2StreamingAggregations.py",
    inputs=inputs("lines"),
    mode="complete",
    sink="console",
    replaced=("socket: files", "console sink: collected"),
)
def lines_so_far(spark: SparkSession, read: Read) -> Any:
    """Socket; select of count('*'), which makes one group of all rows."""
    return (
        read("lines")
        .select(F.count(F.col("*")).alias("lineCount"))
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/PaulaGili/Real-Time-Air-Traffic-Data-Analysis-with-Spark-Structured-Streaming: Adsbx/kpi1.py",
    inputs=inputs("planes"),
    mode="complete",
    sink="console",
    replaced=("socket: files", "console sink: collected"),
)
def mean_altitude(spark: SparkSession, read: Read) -> Any:
    """Socket JSON; explode of an array of structs; filter on nested fields; select of avg."""
    planes = _planes(read)
    near = planes.filter((F.col("plane.lat") >= 40.29) & (F.col("plane.lon") <= 3.57))
    return (
        near.select(F.avg(F.col("plane.alt_baro")).alias("avg_altitude"))
        .writeStream.outputMode("complete")
        .format("console")
    )


def _planes(read: Read) -> Any:
    schema = (
        "ac array<struct<flight: string, lat: double, lon: double, alt_baro: double, category: string>>, now double"
    )
    parsed = read("planes").select(F.from_json(F.col("value"), schema).alias("parsed"))
    return parsed.select(F.explode(F.col("parsed.ac")).alias("plane"))


@public_job(
    JOBS,
    "github.com/PaulaGili/Real-Time-Air-Traffic-Data-Analysis-with-Spark-Structured-Streaming: Adsbx/ejercicio4.py",
    inputs=inputs("planes"),
    mode="complete",
    sink="console",
    replaced=("socket: files", "console sink: collected"),
)
def planes_per_category(spark: SparkSession, read: Read) -> Any:
    """Socket JSON; explode; filter; withColumn of a Python UDF; key category; count."""
    distance = F.udf(lambda lat, lon: abs(lat - 41.0) + abs(lon - 2.0), "double")
    planes = _planes(read).select(F.col("plane.category").alias("category"), "plane.lat", "plane.lon")
    far = planes.filter(F.col("category").isNotNull()).withColumn("distance", distance(F.col("lat"), F.col("lon")))
    return far.groupBy("category").count().writeStream.outputMode("complete").format("console")


@public_job(
    JOBS,
    "github.com/viveksh212/pyspark-structured-streaming: src/streaming/streamhandler.py",
    inputs=inputs("fitness"),
    mode="complete",
    sink="console",
    replaced=("kafka: files", "console sink: collected"),
)
def fitness(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; key profile; avg and sum of columns of text."""
    texts = read("fitness").selectExpr("CAST(value AS STRING)")
    schema = "device_id string, profile_name string, steps string, heartbeat string"
    parsed = texts.withColumn("jsonData", F.from_json(F.col("value"), schema)).select("jsonData.*")
    return (
        parsed.groupBy("profile_name")
        .agg(F.avg("heartbeat").alias("average_heartbeat"), F.sum("steps").alias("total_steps"))
        .writeStream.outputMode("complete")
        .format("console")
        .trigger(processingTime="10 seconds")
    )


@public_job(
    JOBS,
    "github.com/devarshpatel1506/Real-Time-Streaming-Kafka-Debezium-Spark-Streaming: spark-streaming-consumer.py",
    inputs=inputs("phones"),
    mode="complete",
    sink="foreachBatch",
    replaced=("kafka: files", "table of a database: a table in memory, which holds the last result"),
)
def phone_statistics(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; withColumn with casts; DataFrame.agg of one group: count and max; the function inserts into a
    database."""
    phones = from_kafka(read("phones"), "id string, brand string, ram string, rom string, price string")
    for name in ("ram", "rom", "price"):
        phones = phones.withColumn(name, F.col(name).cast("double"))

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.overwrite(batch)

    return (
        phones.agg(
            F.count("id").alias("total_phones"), F.max("price").alias("max_price"), F.max("ram").alias("max_ram")
        )
        .writeStream.foreachBatch(write)
        .outputMode("complete")
    )


@public_job(
    JOBS,
    f"{_JANANI}: m4/demo-10-watermarks_v1.py",
    inputs=inputs("sales"),
    mode="complete",
    sink="console",
    replaced=("CSV files: JSON files", "console sink: collected"),
)
def ratings_by_time_of_arrival(spark: SparkSession, read: Read) -> Any:
    """CSV files; withColumn(current_timestamp) with a watermark of 1 min; keys sliding window of 1 min by 30 s over
    frame.column, city and branch; agg of a dict; then withColumnRenamed and orderBy."""
    sales = read("sales").withColumn("ingestion_timestamp", F.current_timestamp())
    late = sales.withWatermark("ingestion_timestamp", "1 minutes")
    window = F.window(sales.ingestion_timestamp, "1 minutes", "30 seconds")
    ratings = late.groupBy(window, sales.City, sales.Branch).agg({"Rating": "avg"})
    return (
        ratings.withColumnRenamed("avg(Rating)", "avg_rating")
        .orderBy("avg_rating", "City")
        .writeStream.outputMode("complete")
        .format("console")
    )


def _moment(date: str, time: str) -> datetime:
    return datetime.strptime(f"{date} {time}", "%m/%d/%Y %H:%M")


@public_job(
    JOBS,
    f"{_JANANI}: m4/demo-09-udfs_v3.py",
    inputs=inputs("sales"),
    mode="complete",
    sink="console",
    ordered=True,
    replaced=("CSV files: JSON files", "console sink: collected"),
)
def average_prices_per_day(spark: SparkSession, read: Read) -> Any:
    """CSV files; withColumn of a Python UDF that makes the event time of two texts; keys window of 1 day over
    frame.column and a column with a space; agg of a dict; then orderBy of result.window.start and that column."""
    moment = F.udf(_moment, "timestamp")
    sales = read("sales").withColumn("Datetime", moment("Date", "Time"))
    means = sales.groupBy(F.window(sales.Datetime, "1 day"), "Product line").agg({"Unit price": "avg"})
    return means.orderBy(means.window.start, "Product line").writeStream.outputMode("complete").format("console")


def _hashtags(text: str | None) -> list[str]:
    return [word for word in (text or "").split(" ") if "#" in word] or ["no tags"]


@public_job(
    JOBS,
    "github.com/gyan42/spark-streaming-playground: src/ssp/spark/streaming/analytics/trending_hashtags.py",
    inputs=inputs("tweets"),
    mode="complete",
    sink="foreachBatch",
    replaced=("kafka: files", "table of a database: a table in memory"),
)
def trending_hashtags(spark: SparkSession, read: Read) -> Any:
    """Kafka JSON; explode of a Python UDF; key hashtag; count; then sort descending; the function overwrites a table of
    a database."""
    tweets = from_kafka(read("tweets"), "text string")
    tags = tweets.withColumn("hashtag", F.explode(F.udf(_hashtags, "array<string>")(F.col("text"))))

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.overwrite(batch)

    return (
        tags.groupBy("hashtag")
        .count()
        .sort(F.col("count").desc())
        .writeStream.foreachBatch(write)
        .outputMode("complete")
    )


@public_job(
    JOBS,
    "github.com/IamMayankThakur/test-bigdata: adminmgr/media/code/A3/task1/BD_0856_1373_1590_K3TbeIf.py",
    inputs=inputs("tweets as files"),
    mode="complete",
    sink="console",
    replaced=("CSV files: JSON files", "console sink: collected"),
)
def five_hashtags(spark: SparkSession, read: Read) -> Any:
    """CSV files; explode(split); key hashtag; count; then sort descending, limit 5, and select."""
    tweets = read("tweets as files")
    chosen = tweets.select(tweets.Hashtags)
    tags = chosen.select(F.explode(F.split(chosen.Hashtags, ",")).alias("Hashtags"))
    return (
        tags.groupBy("Hashtags")
        .count()
        .sort(F.desc("count"))
        .limit(5)
        .select("Hashtags", "count")
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/hortonworks-sk/spark-kafka: pyspark_aggregations.py",
    inputs=inputs("rate"),
    mode="complete",
    sink="console",
    replaced=("rate: files", "console sink: collected"),
)
def sums_per_window(spark: SparkSession, read: Read) -> Any:
    """Rate source; no watermark; key window of 5 s only; GroupedData.sum of all numbers."""
    return (
        read("rate")
        .groupBy(F.window("timestamp", "5 seconds", "5 seconds"))
        .sum()
        .writeStream.outputMode("complete")
        .format("console")
    )


@public_job(
    JOBS,
    "github.com/SUDHA489/DataEngineer_Training: week3/day11/withwatermark.py",
    inputs=inputs("rate"),
    mode="complete",
    sink="console",
    replaced=("rate: files", "console sink: collected"),
)
def counts_with_watermark(spark: SparkSession, read: Read) -> Any:
    """Rate source; withColumn(when/otherwise) makes some rows older; watermark 5 s; key window of 10 s only; count;
    then withColumnRenamed."""
    older = F.when(F.col("value") % 3 == 0, F.expr("timestamp - INTERVAL 5 seconds")).otherwise(F.col("timestamp"))
    late = read("rate").withColumn("eventTime", older).withWatermark("eventTime", "5 seconds")
    counts = late.groupBy(F.window(F.col("eventTime"), "10 seconds")).count()
    return (
        counts.withColumnRenamed("count", "count_with_watermark").writeStream.outputMode("complete").format("console")
    )


@public_job(
    JOBS,
    "github.com/cartershanklin/pyspark-cheatsheet: windowed structured stream over CSV files",
    inputs=inputs("cars"),
    mode="complete",
    sink="console",
    replaced=("CSV files: JSON files", "console sink: collected"),
)
def means_per_manufacturer(spark: SparkSession, read: Read) -> Any:
    """CSV files; withColumn(current_timestamp); keys window of 1 min over frame.column and a column; avg and count;
    then coalesce(10) and orderBy of window and key."""
    cars = read("cars").withColumn("timestamp", F.current_timestamp())
    means = cars.groupBy(F.window(cars.timestamp, "1 minute"), "car").agg(
        F.avg("price").alias("avg_price"), F.avg("timestamp").alias("avg_timestamp"), F.count("year").alias("count")
    )
    return means.coalesce(10).orderBy("window", "car").writeStream.outputMode("complete").format("console")
