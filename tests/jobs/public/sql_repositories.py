"""In SQL: messages and files"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ..job import Job, Read
from ..listed import listed
from ..making import binary, iso, series, topic

JOBS: list[Job] = []

CARS = series(
    "car string, price double, body string, year int, model string, drive string",
    lambda n, s, random: {
        "car": random.choice(("Ford", "BMW", "Audi")),
        "price": float(random.randint(0, 9) * 1000),
        "body": "van",
        "year": random.randint(2010, 2018),
        "model": f"m{n % 5}",
        "drive": random.choice(("full", "front")),
    },
)
SALES = series(
    "`Invoice ID` string, Branch string, Rating double",
    lambda n, s, random: {"Invoice ID": f"i{n}", "Branch": "AB"[n % 2], "Rating": float(random.randint(3, 10))},
)
PRICES = series(
    "Date timestamp, Open double, Close double, Name string",
    lambda n, s, random: {
        "Date": iso(s),
        "Open": float(n),
        "Close": float(random.randint(10, 99)),
        "Name": random.choice(("AAPL", "GOOG", "MSFT")),
    },
)
PEOPLE = series(
    "name string, age bigint, sex string",
    lambda n, s, random: {"name": f"p{n}", "age": random.choice((None, 12, 20, 21, 40)), "sex": "mf"[n % 2]},
)
STATUS = "truckNumber string, destination string, milesFromShop string, odometerReading string"
CHECKIN = "reservationId string, locationName string, truckNumber string, status string"
STATUSES = topic(
    lambda n, s, random: {
        "truckNumber": str(n % 60),
        "destination": "Dallas",
        "milesFromShop": str(random.randint(1, 99)),
        "odometerReading": str(1000 + n),
    }
)
CHECKINS = topic(
    lambda n, s, random: {
        "reservationId": str(n),
        "locationName": "Reno",
        "truckNumber": str(n % 90),
        "status": random.choice(("In", "Out")),
    }
)
REDIS = "key string, existType string, zSetEntries array<struct<element: string, Score: string>>"
CHANGES = topic(
    lambda n, s, random: {
        "key": "cGF5bWVudHM=",
        "existType": "NONE",
        "zSetEntries": [
            {
                "element": binary({"reservationId": str(n), "customerName": "Ada", "amount": f"{n % 90}.50"}),
                "Score": "0.0",
            }
        ],
    }
)
PAYMENT = "reservationId string, customerName string, date string, amount string"
CUSTOMERS = topic(
    lambda n, s, random: {
        "customerName": f"n{n}",
        "email": f"{n % 70}@x.test" if n % 9 else None,
        "birthDay": f"19{random.randint(50, 99)}-01-01" if n % 7 else None,
    }
)
RISKS = topic(
    lambda n, s, random: {
        "customer": f"{random.randint(0, 90)}@x.test",
        "score": float(random.randint(-9, 9)),
        "riskDate": iso(s),
    }
)


@listed(JOBS, inputs={"cars": CARS}, mode="append", sink="console")
def sql_cars_with_full_drive(spark: SparkSession, read: Read) -> Any:
    read("cars").createOrReplaceTempView("car_ads")
    chosen = spark.sql("""SELECT car as make, model, price, year, drive FROM car_ads
                          WHERE year > 2013 and price > 0 and drive = 'full'""")
    return chosen.writeStream.outputMode("append").format("console").option("numRows", 10)


@listed(JOBS, inputs={"sales": SALES}, mode="append", sink="console")
def sql_ratings_by_registered_function(spark: SparkSession, read: Read) -> Any:
    def status(rating: float) -> str:
        return "Amazing" if rating >= 9 else "Good" if rating >= 8 else "Average" if rating >= 5 else "Bad"

    spark.udf.register("add_rating_status_udf", status, StringType())
    read("sales").createOrReplaceTempView("product_orders")
    ratings = spark.sql("SELECT `Invoice ID`, Rating, add_rating_status_udf(Rating) as Comments FROM product_orders")
    return ratings.writeStream.outputMode("append").format("console").option("truncate", "false")


@listed(JOBS, inputs={"prices": PRICES}, mode="complete", sink="console")
def sql_average_close(spark: SparkSession, read: Read) -> Any:
    read("prices").createOrReplaceTempView("stock_prices")
    closes = spark.sql("SELECT Name, avg(Close) FROM stock_prices GROUP BY Name")
    return closes.writeStream.outputMode("complete").format("console").option("numRows", 30)


@listed(JOBS, inputs={"people": PEOPLE}, mode="append", sink="console")
def sql_people_above_twenty(spark: SparkSession, read: Read) -> Any:
    read("people").createOrReplaceTempView("people")
    return spark.sql("select * from people where age > 20").writeStream.outputMode("append").format("console")


@listed(JOBS, inputs={"statuses": STATUSES}, mode="append", sink="console")
def sql_messages_of_topic(spark: SparkSession, read: Read) -> Any:
    spark.catalog.dropTempView("stream1")
    read("statuses").createTempView("stream1")
    return spark.sql("SELECT value, timestamp FROM stream1").writeStream.format("console").option("truncate", False)


@listed(JOBS, inputs={"statuses": STATUSES, "checkins": CHECKINS}, mode="append", sink="console")
def sql_vehicles_checked_in(spark: SparkSession, read: Read) -> Any:
    for name, schema, view in (("statuses", STATUS, "VehicleStatus"), ("checkins", CHECKIN, "VehicleCheckin")):
        texts = read(name).selectExpr("cast(key as string) key", "cast(value as string) value")
        parsed = texts.withColumn("value", F.from_json("value", schema)).select(F.col("value.*"))
        parsed.createOrReplaceTempView(view)
    statuses = spark.sql(
        "select truckNumber as statusTruckNumber, destination, milesFromShop, odometerReading from VehicleStatus"
    )
    checkins = spark.sql(
        "select reservationId, locationName, truckNumber as checkinTruckNumber, status from VehicleCheckin"
    )
    joined = statuses.join(checkins, F.expr("statusTruckNumber = checkinTruckNumber"))
    return joined.writeStream.outputMode("append").format("console")


@listed(JOBS, inputs={"changes": CHANGES}, mode="append", sink="kafka")
def sql_payments_of_redis(spark: SparkSession, read: Read) -> Any:
    texts = read("changes").selectExpr("cast(key as string) key", "cast(value as string) value")
    texts.withColumn("value", F.from_json("value", REDIS)).select(F.col("value.*")).createOrReplaceTempView("RedisData")
    encoded = spark.sql("select key, zSetEntries[0].element as payment from RedisData")
    decoded = encoded.withColumn("payment", F.unbase64(encoded.payment).cast("string"))
    parsed = decoded.withColumn("payment", F.from_json("payment", PAYMENT)).select(F.col("payment.*"))
    parsed.createOrReplaceTempView("Payment")
    payments = spark.sql("select reservationId, amount from Payment")
    messages = payments.selectExpr("CAST(reservationId AS STRING) AS key", "to_json(struct(*)) AS value")
    return messages.writeStream.format("kafka").option("topic", "payment-json")


@listed(JOBS, inputs={"customers": CUSTOMERS, "risks": RISKS}, mode="append", sink="console")
def sql_risk_by_birth_year(spark: SparkSession, read: Read) -> Any:
    customer = "customerName string, email string, birthDay string"
    risk = "customer string, score float, riskDate string"
    for name, schema, view in (("customers", customer, "CustomerRecords"), ("risks", risk, "CustomerRisk")):
        texts = read(name).selectExpr("cast(value as string) value")
        parsed = texts.withColumn("value", F.from_json("value", schema)).select(F.col("value.*"))
        parsed.createOrReplaceTempView(view)
    known = spark.sql("SELECT email, birthDay FROM CustomerRecords WHERE email IS NOT NULL AND birthDay IS NOT NULL")
    years = known.withColumn("birthYear", F.split(F.col("birthDay"), "-").getItem(0))
    years = years.select(F.col("email"), F.col("birthYear"))
    risks = spark.sql("SELECT customer, score FROM CustomerRisk")
    return risks.join(years, F.expr("customer = email")).writeStream.format("console").outputMode("append")
