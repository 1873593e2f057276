"""In SQL: notebooks, and views of views"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..job import Job, Read
from ..listed import listed
from ..making import epoch, fixed, iso, series

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
JOBS: list[Job] = []

BOOKS = series(
    "book_id string, title string, author string, category string, price double",
    lambda n, s, random: {
        "book_id": f"B{n}",
        "title": f"title {n}",
        "author": random.choice(("Ada", "Grace", "Alan")),
        "category": "Computer Science",
        "price": float(random.randint(20, 60)),
    },
)
ORDERS = series(
    "order_id string, order_timestamp bigint, customer_id string, quantity bigint, total bigint, books array<string>",
    lambda n, s, random: {
        "order_id": f"{n:05}",
        "order_timestamp": epoch(s),
        "customer_id": f"C{random.randint(1, 5)}",
        "quantity": random.randint(0, 3),
        "total": random.randint(10, 90),
        "books": [f"B{n % 3}", f"B{n % 5}"],
    },
    step=2711,
)
NAMED_ORDERS = series(
    "customer_id string, f_name string, l_name string, order_timestamp timestamp, quantity bigint",
    lambda n, s, random: {
        "customer_id": f"C{n % 4}",
        "f_name": f"first {n % 4}",
        "l_name": "last" if n % 4 else None,
        "order_timestamp": iso(s),
        "quantity": random.randint(1, 4),
    },
    step=7211,
)
CUSTOMERS = fixed(
    "customer_id string, email string, profile string",
    [
        {"customer_id": f"C{n}", "email": "", "profile": f'{{"first_name": "first {n}", "last_name": "last {n}"}}'}
        for n in range(4)
    ],
)
HEART_RATES = series(
    "device_id int, mrn string, time double, heartrate double",
    lambda n, s, random: {
        "device_id": n % 6,
        "mrn": f"m{random.randint(1, 5)}",
        "time": float(epoch(s)),
        "heartrate": float(random.randint(-2, 90)),
    },
    step=1201,
)
PATIENTS = fixed("mrn string, name string", [{"mrn": f"m{n}", "name": f"patient {n}"} for n in range(1, 5)])
ENRICHED = series(
    "device_id int, mrn string, name string, time timestamp, heartrate double",
    lambda n, s, random: {
        "device_id": n % 6,
        "mrn": f"m{n % 3}",
        "name": f"patient {n % 3}",
        "time": iso(s),
        "heartrate": float(random.randint(50, 90)),
    },
    step=3607,
)
STATES = series(
    "customer_id string, customer_name string, state string, postcode int",
    lambda n, s, random: {
        "customer_id": f"c{n}",
        "customer_name": f"name {n}",
        "state": random.choice(("CA", "NY", "WA", None)),
        "postcode": random.randint(-1, 3),
    },
)
SENSORS = series(
    "Creation_Time bigint, gt string",
    lambda n, s, random: {"Creation_Time": epoch(s) * 1_000_000_000, "gt": random.choice(("walk", "sit", None))},
    step=307,
)
EVENTS = series(
    "event_id string, platform string, event_datetime timestamp, uri string",
    lambda n, s, random: {
        "event_id": f"e{n}",
        "platform": random.choice(("ios", "android", "web")),
        "event_datetime": iso(s),
        "uri": f"/page/{min(random.randint(1, 16), random.randint(1, 16))}",
    },
    step=3,
)


@listed(JOBS, inputs={"books": BOOKS}, mode="complete", sink="delta")
def sql_books_per_author(spark: SparkSession, read: Read) -> Any:
    read("books").createOrReplaceTempView("books_streaming_tmp_vw")
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW author_counts_tmp_vw AS (SELECT author, count(book_id) AS total_books"
        " FROM books_streaming_tmp_vw GROUP BY author)"
    )
    return (
        spark.table("author_counts_tmp_vw")
        .writeStream.format("delta")
        .trigger(processingTime="4 seconds")
        .outputMode("complete")
    )


@listed(
    JOBS,
    inputs={"orders": ORDERS},
    mode="append",
    sink="table",
    ignored=("arrival_time", "source_file"),
)
def sql_orders_with_arrival(spark: SparkSession, read: Read) -> Any:
    read("orders").createOrReplaceTempView("orders_raw_temp")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders_tmp AS (SELECT *, current_timestamp() arrival_time,"
        " input_file_name() source_file FROM orders_raw_temp)"
    )
    return spark.table("orders_tmp").writeStream.outputMode("append")


@listed(JOBS, inputs={"orders": ORDERS}, tables={"customers": CUSTOMERS}, mode="append", sink="table")
def sql_orders_with_customers(spark: SparkSession, read: Read) -> Any:
    read.static("customers").createOrReplaceTempView("customers_lookup")
    read("orders").createOrReplaceTempView("orders_bronze_tmp")
    spark.sql("""
        CREATE OR REPLACE TEMPORARY VIEW orders_enriched_tmp AS (
          SELECT order_id, quantity, o.customer_id, get_json_object(c.profile, '$.first_name') as f_name,
                 get_json_object(c.profile, '$.last_name') as l_name,
                 cast(from_unixtime(order_timestamp, 'yyyy-MM-dd HH:mm:ss') AS timestamp) order_timestamp, books
          FROM orders_bronze_tmp o
          INNER JOIN customers_lookup c ON o.customer_id = c.customer_id
          WHERE quantity > 0)
    """)
    return spark.table("orders_enriched_tmp").writeStream.outputMode("append")


@listed(JOBS, inputs={"orders": NAMED_ORDERS}, mode="complete", sink="delta", trigger="availableNow")
def sql_books_per_customer_and_day(spark: SparkSession, read: Read) -> Any:
    read("orders").createOrReplaceTempView("orders_silver_tmp")
    spark.sql("""
        CREATE OR REPLACE TEMP VIEW daily_customer_books_tmp AS (
          SELECT customer_id, f_name, l_name, date_trunc("DD", order_timestamp) order_date, sum(quantity) books_counts
          FROM orders_silver_tmp
          GROUP BY customer_id, f_name, l_name, date_trunc("DD", order_timestamp))
    """)
    return (
        spark.table("daily_customer_books_tmp")
        .writeStream.format("delta")
        .outputMode("complete")
        .trigger(availableNow=True)
    )


@listed(JOBS, inputs={"customers": STATES}, mode="complete", sink="delta")
def sql_customers_by_post_code(spark: SparkSession, read: Read) -> Any:
    read("customers").createOrReplaceTempView("bronze_temp")
    spark.sql("""
        CREATE OR REPLACE TEMPORARY VIEW bronze_enhanced_temp AS
        SELECT *, current_timestamp() receipt_time FROM bronze_temp WHERE postcode > 0
    """)
    assert spark.table("bronze_enhanced_temp").isStreaming
    spark.sql("""
        CREATE OR REPLACE TEMPORARY VIEW customer_count_temp AS
        SELECT state, count(customer_id) AS customer_count FROM bronze_enhanced_temp GROUP BY state
    """)
    return spark.table("customer_count_temp").writeStream.format("delta").outputMode("complete")


@listed(JOBS, inputs={"recordings": HEART_RATES}, tables={"pii": PATIENTS}, mode="append", sink="table")
def sql_recordings_with_patients(spark: SparkSession, read: Read) -> Any:
    read.static("pii").createOrReplaceTempView("pii")
    read("recordings").createOrReplaceTempView("bronze_tmp")
    spark.sql("""
        CREATE OR REPLACE TEMPORARY VIEW recordings_w_pii AS (
          SELECT device_id, a.mrn, b.name,
                 cast(from_unixtime(cast(time AS bigint), 'yyyy-MM-dd HH:mm:ss') AS timestamp) time, heartrate
          FROM bronze_tmp a
          INNER JOIN pii b
          ON a.mrn = b.mrn
          WHERE heartrate > 0)
    """)
    return spark.table("recordings_w_pii").writeStream.outputMode("append")


@listed(JOBS, inputs={"recordings": ENRICHED}, mode="complete", sink="delta", trigger="availableNow")
def sql_daily_averages_of_patients(spark: SparkSession, read: Read) -> Any:
    read("recordings").createOrReplaceTempView("recordings_enriched_temp")
    spark.sql("""
        CREATE OR REPLACE TEMP VIEW patient_avg AS (
          SELECT mrn, name, mean(heartrate) avg_heartrate, date_trunc("DD", time) date
          FROM recordings_enriched_temp
          GROUP BY mrn, name, date_trunc("DD", time))
    """)
    averages = spark.table("patient_avg").writeStream.format("delta")
    return averages.outputMode("complete").trigger(availableNow=True)


@listed(JOBS, inputs={"sensors": SENSORS}, mode="complete", sink="delta")
def sql_actions_per_hour(spark: SparkSession, read: Read) -> Any:
    phones = read("sensors").selectExpr("cast(Creation_Time/1E9 AS timestamp) AS creation_time", "gt AS action")
    phones.withWatermark("creation_time", "2 hours").createOrReplaceTempView("watermarked_tmp_vw")
    return (
        spark.sql("""
        SELECT window.start AS start, action, count(action) AS count
        FROM watermarked_tmp_vw
        GROUP BY window(creation_time, '1 hour'), action
        ORDER BY start, action
    """)
        .writeStream.format("delta")
        .outputMode("complete")
    )


@listed(JOBS, inputs={"events": EVENTS}, mode="complete", sink="memory")
def sql_events_monitored(spark: SparkSession, read: Read) -> Any:
    read("events").createOrReplaceTempView("events_stream")
    monitored = spark.sql("""
        WITH event_monitoring AS
          (SELECT WINDOW(event_datetime, "10 seconds") w, count(*) c, platform FROM events_stream
           WHERE CAST(event_datetime as INT) > CAST(timestamp '2024-01-01 00:05:00' as INT) - 120 GROUP BY w, platform)
        SELECT w.*, c, platform FROM event_monitoring
    """)
    return monitored.writeStream.format("memory").outputMode("complete")


@listed(JOBS, inputs={"events": EVENTS}, mode="complete", sink="memory", ignored=("uri",))
def sql_ten_pages(spark: SparkSession, read: Read) -> Any:
    read("events").createOrReplaceTempView("events_stream")
    pages = spark.sql("select count(*) as count, uri from events_stream group by uri order by count desc limit 10;")
    return pages.writeStream.format("memory").outputMode("complete")
