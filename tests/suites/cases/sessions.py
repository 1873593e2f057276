"""Session windows: StreamingSessionWindowSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ..case import Read, case

SUITE = "StreamingSessionWindowSuite"
TEXT, INT = {"in": "_1 string, _2 long"}, {"in": "value int"}
FIRST = [("hello world spark streaming", 40), ("world hello structured streaming", 41)]
COMPLETE = [
    {"in": FIRST},
    {"in": [("spark streaming", 25)]},
    {"in": [("spark streaming", 30)]},
    {"in": [("hello apache spark", 60)]},
    {"in": [("structured streaming", 90)]},
]
APPEND = [*COMPLETE[:2], {"in": [("spark streaming", 0)]}, *COMPLETE[2:]]
KEYS = {"single": "sessionId", "nested": "sessionId", "several": "aggKeyDouble, aggKeySingle"}


def _events(read: Read, kind: str) -> Any:
    rows = read("in").select(F.col("_1").alias("value"), F.col("_2").alias("timestamp"))
    rows = rows.withColumn("eventTime", F.col("timestamp").cast("timestamp"))
    if kind == "single":
        rows = rows.withWatermark("eventTime", "30 seconds")
        return rows.selectExpr("explode(split(value, ' ')) AS sessionId", "eventTime")
    rows = rows.withColumn("sessionIdSingle", F.split("value", " "))
    rows = rows.withColumn("sessionIdDouble", F.arrays_zip("sessionIdSingle", "sessionIdSingle"))
    rows = rows.withColumn("sessionIdTriple", F.arrays_zip("sessionIdDouble", "sessionIdSingle"))
    if kind == "nested":
        rows = rows.withWatermark("eventTime", "30 seconds")
        return rows.selectExpr("explode(sessionIdTriple) AS sessionId", "eventTime")
    rows = rows.withColumn("sessionIdTriple", F.explode("sessionIdTriple")).withWatermark("eventTime", "30 seconds")
    return rows.selectExpr(
        "sessionIdTriple.sessionIdDouble AS aggKeyDouble",
        "sessionIdTriple.sessionIdSingle AS aggKeySingle",
        "eventTime",
    )


def _gap(word: str) -> str:
    return (
        f"CASE {word} WHEN 'hello' THEN '1 second' WHEN 'structured' THEN '0 second'"
        " WHEN 'world' THEN '-10 seconds' ELSE '10 seconds' END"
    )


def _sessions(read: Read, kind: str = "single", gap: Any = "10 seconds") -> Any:
    keys = KEYS[kind].split(", ")
    session = F.session_window("eventTime", gap).alias("session")
    counts = _events(read, kind).groupBy(session, *keys).agg(F.count("*").alias("numEvents"))
    return counts.selectExpr(
        *keys,
        "CAST(session.start AS LONG) AS start",
        "CAST(session.end AS LONG) AS end",
        "CAST(session.end AS LONG) - CAST(session.start AS LONG) AS durationMs",
        "numEvents",
    )


def _of_all(read: Read) -> Any:
    rows = read("in").selectExpr("*").withColumn("eventTime", F.col("value").cast("timestamp"))
    sessions = rows.withWatermark("eventTime", "10 seconds").groupBy(
        F.session_window("eventTime", "5 seconds").alias("session")
    )
    counts = sessions.agg(F.count("*").alias("count"), F.sum("value").alias("sum"))
    return counts.select(F.col("session").getField("start").cast("long").alias("start"), "count", "sum")


@case(SUITE, "complete mode - session window", inputs=TEXT, steps=COMPLETE, mode="complete", history=2)
def complete_sessions(read: Read) -> Any:
    return _sessions(read)


@case(SUITE, "complete mode - session window - nested tuple key", inputs=TEXT, steps=COMPLETE, mode="complete")
def complete_sessions_by_a_struct(read: Read) -> Any:
    return _sessions(read, "nested")


@case(SUITE, "complete mode - session window - multiple col key", inputs=TEXT, steps=COMPLETE, mode="complete")
def complete_sessions_by_two_columns(read: Read) -> Any:
    return _sessions(read, "several")


ALONE = {"inputs": INT, "steps": [{"in": [40]}], "refused": "session window"}


@case(SUITE, "complete mode - session window - no key", **ALONE, mode="complete")
def complete_sessions_of_all(read: Read) -> Any:
    return _of_all(read)


@case(SUITE, "append mode - session window - no key", **ALONE)
def sessions_of_all(read: Read) -> Any:
    return _of_all(read)


@case(SUITE, "update mode - session window - no key", **ALONE, mode="update")
def sessions_of_all_as_updates(read: Read) -> Any:
    return _of_all(read)


@case(
    SUITE,
    "update mode - session window",
    inputs=TEXT,
    steps=[{"in": [("hello", 40)]}],
    mode="update",
    refused="session window",
)
def sessions_as_updates(read: Read) -> Any:
    return _sessions(read)


@case(SUITE, "append mode - session window", inputs=TEXT, steps=APPEND, history=2)
def sessions(read: Read) -> Any:
    return _sessions(read)


@case(SUITE, "SPARK-36465: dynamic gap duration", inputs=TEXT, steps=APPEND, history=2)
def sessions_with_gaps_of_their_own(read: Read) -> Any:
    return _sessions(read, "single", F.expr(_gap("sessionId")))


@case(SUITE, "dynamic gap duration - nested tuple key", inputs=TEXT, steps=APPEND)
def sessions_by_a_struct_with_gaps_of_their_own(read: Read) -> Any:
    return _sessions(read, "nested", F.expr(_gap("sessionId.sessionIdSingle")))


@case(SUITE, "dynamic gap duration - multiple col key", inputs=TEXT, steps=APPEND)
def sessions_by_two_columns_with_gaps_of_their_own(read: Read) -> Any:
    return _sessions(read, "several", F.expr(_gap("aggKeySingle")))


@case(
    SUITE,
    "session window - with more aggregation functions and UDAFs",
    inputs=TEXT,
    steps=[{"in": [("a", 41)]}, {"in": [("a", 42)]}, {"in": [("a", 40)]}, {"in": [("b", 100)]}, {"in": [("b", 101)]}],
    history=2,
)
def sessions_with_many_aggregates(read: Read) -> Any:
    rows = read("in").select(F.col("_1").alias("value"), F.col("_2").alias("timestamp"))
    rows = rows.withColumn("eventTime", F.col("timestamp").cast("timestamp")).withColumn("single", F.col("timestamp"))
    rows = rows.withColumn("double", F.struct("single", "single")).withColumn("triple", F.struct("double", "single"))
    rows = rows.withWatermark("eventTime", "30 seconds").selectExpr(
        "explode(split(value, ' ')) AS sessionId", "eventTime", "single", "triple"
    )
    sessions = rows.groupBy(F.session_window("eventTime", "10 seconds").alias("session"), "sessionId").agg(
        F.mean("single").alias("meanTime"),
        F.median("single").alias("medianTime"),
        F.stddev("single").alias("stdDevTime"),
        F.variance("single").alias("varTime"),
        F.first("triple").alias("firstTimeTriple"),
        F.last("triple").alias("lastTimeTriple"),
        F.sum("single").alias("sumSingle"),
    )
    return sessions.selectExpr(
        "sessionId",
        "CAST(session.start AS LONG) AS start",
        "CAST(session.end AS LONG) AS end",
        "CAST(meanTime AS LONG) AS meanTime",
        "CAST(medianTime AS LONG) AS medianTime",
        "CAST(stdDevTime AS LONG) AS stdDevTime",
        "CAST(varTime AS LONG) AS varTime",
        "sumSingle",
    )
