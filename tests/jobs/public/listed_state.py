"""Second list: counters and averages by functions with state of their own"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..job import Job, Read
from ..listed import listed
from ..making import epoch, iso, rate, series, socket, topic

JOBS: list[Job] = []
_TIMED = "cast(cast(Creation_Time as double)/1000000000 as timestamp) as event_time"
WEATHER = series(
    "stationId string, timestamp timestamp, longitude double, latitude double, pressure double, temp double",
    lambda n, s, random: {
        "stationId": f"station{random.randint(1, 6)}",
        "timestamp": iso(s),
        "longitude": random.randint(-10, 39),
        "latitude": random.randint(36, 56),
        "pressure": random.randint(990, 1030),
        "temp": random.randint(-20, 40),
    },
)


def _phones(devices: int, count: int) -> Any:
    return series(
        "Creation_Time bigint, Device string, User string, gt string, x double",
        lambda n, s, random: {
            "Creation_Time": epoch(s) * 1_000_000_000,
            "Device": f"nexus4_{random.randint(1, devices)}",
            "User": "ab"[random.randint(0, 1)],
            "gt": random.choice(("walk", "walk", "stand", None)),
            "x": random.randint(-50, 50),
        },
        count=count,
        step=3,
    )


def _storage(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    count, used = state.get if state.exists else (0, 0)
    for frame in frames:
        count, used = count + int(frame["count"].sum()), used + int(frame["storageUsed"].sum())
    state.update((count, used))
    yield pd.DataFrame({"postType": [key[0]], "averageStorage": [used * 1.0 / count]})


@listed(
    JOBS,
    inputs={
        "lines": socket(
            lambda n, s, random: (
                f"{random.choice(('text', 'video', 'audio'))},{random.randint(1, 5)},{random.randint(1, 90) * 100}"
            )
        )
    },
    mode="update",
    sink="foreachBatch",
    keys=("postType",),
)
def average_storage_of_posts(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    posts = read("lines").select(
        tokens[0].alias("postType"), tokens[1].cast("int").alias("count"), tokens[2].cast("int").alias("storageUsed")
    )
    average = posts.groupBy("postType").applyInPandasWithState(
        _storage, "postType string, averageStorage double", "count int, used int", "update", "NoTimeout"
    )

    def show(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch)

    return average.writeStream.outputMode("update").foreachBatch(show)


def _rolling(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    last = json.loads(state.get[0]) if state.exists else []
    given = []
    for frame in frames:
        for duration in frame["clickDuration"]:
            last = [*(last[1:] if len(last) >= 3 else last), int(duration)]
            if len(last) >= 3:
                given.append(sum(last) * 1.0 / 3)
    state.update((json.dumps(last),))
    yield pd.DataFrame({"sessionId": [key[0]] * len(given), "avgDuration": pd.Series(given, dtype="float64")})


@listed(
    JOBS,
    inputs={"clicks": topic(lambda n, s, random: f"session{random.randint(1, 5)},{random.randint(400, 1500)}")},
    mode="append",
    sink="console",
)
def average_of_last_three_clicks(spark: SparkSession, read: Read) -> Any:
    tokens = F.split(F.col("value").cast("string"), ",")
    clicks = (
        read("clicks")
        .select("value")
        .select(tokens[0].alias("sessionId"), tokens[1].cast("bigint").alias("clickDuration"))
    )
    average = clicks.groupBy("sessionId").applyInPandasWithState(
        _rolling, "sessionId string, avgDuration double", "last string", "append", "NoTimeout"
    )
    return average.writeStream.format("console").outputMode("append")


def _rack(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    count, status, last = state.get if state.exists else (5, "", None)
    rows = pd.concat(list(frames)).sort_values("ts")
    for temperature, time in rows[["temperature", "ts"]].itertuples(index=False):
        since = (time - (time if last is None else pd.Timestamp(last))).total_seconds()
        if temperature >= 100.0 and (count < 1 or since <= 60):
            count += 1
            status = "Warning" if count >= 3 else "Normal"
        else:
            count, status = 0, "Normal"
        last = time
    state.update((count, status, last))
    yield pd.DataFrame({"rackId": [key[0]], "highTempCount": [count], "status": [status], "lastTS": [last]})


@listed(
    JOBS,
    inputs={
        "iot": series(
            "rack string, temperature double, ts timestamp",
            lambda n, s, random: {"rack": f"rack{n % 3}", "temperature": random.randint(96, 110), "ts": iso(s)},
            step=14,
        )
    },
    mode="update",
    sink="console",
    keys=("rackId",),
)
def rack_status(spark: SparkSession, read: Read) -> Any:
    status = (
        read("iot")
        .groupBy("rack")
        .applyInPandasWithState(
            _rack,
            "rackId string, highTempCount int, status string, lastTS timestamp",
            "highTempCount int, status string, lastTS timestamp",
            "update",
            "NoTimeout",
        )
    )
    return status.writeStream.format("console").outputMode("update")


_BUFFER = "buffer string"
_AVERAGE = "stationId string, startTime timestamp, endTime timestamp, pressureAvg double, tempAvg double"


def _buffered(frames: Iterator[pd.DataFrame], state: Any) -> list[list[Any]]:
    """The state with the new rows: only the first ten are kept."""
    kept = json.loads(state.get[0]) if state.exists else [[], [], []]
    for frame in frames:
        for part, column in zip(kept, ("timestamp", "pressure", "temp"), strict=True):
            part.extend(frame[column].astype(str) if column == "timestamp" else frame[column])
    kept = [part[:10] for part in kept]
    state.update((json.dumps(kept),))
    return kept


def _average(key: Any, kept: Any) -> pd.DataFrame:
    times, pressures, temps = kept
    size = len(times)
    row = (key[0], pd.Timestamp(times[0]), pd.Timestamp(times[-1]), sum(pressures) / size, sum(temps) / size)
    return pd.DataFrame([row], columns=[part.split(" ")[0] for part in _AVERAGE.split(", ")])


def _mean_of_ten(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        kept = json.loads(state.get[0])
        state.remove()
    else:
        kept = _buffered(frames, state)
        state.setTimeoutDuration(30_000)
    if len(kept[0]) == 10:
        yield _average(key, kept)


@listed(JOBS, inputs={"weather": WEATHER}, mode="update", sink="memory", keys=("stationId",), timeouts=6)
def mean_of_ten_weather_events(spark: SparkSession, read: Read) -> Any:
    average = (
        read("weather")
        .withWatermark("timestamp", "2 minutes")
        .groupBy("stationId")
        .applyInPandasWithState(_mean_of_ten, _AVERAGE, _BUFFER, "update", "ProcessingTimeTimeout")
    )
    return average.writeStream.format("memory").queryName("weatherAverage").outputMode("update")


def _mean_so_far(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    kept = _buffered(frames, state)
    if len(kept[0]) > 2:
        yield _average(key, kept)
    else:
        yield _average(key, ([pd.Timestamp(0)], [0.0], [0.0]))


@listed(JOBS, inputs={"weather": WEATHER}, mode="update", sink="memory", keys=("stationId",), timeouts=6)
def mean_of_weather_events_so_far(spark: SparkSession, read: Read) -> Any:
    average = (
        read("weather")
        .groupBy("stationId")
        .applyInPandasWithState(_mean_so_far, _AVERAGE, _BUFFER, "update", "ProcessingTimeTimeout")
    )
    return average.writeStream.format("memory").queryName("weatherAverage").outputMode("update")


def _span(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    far, early = pd.Timestamp("2169-02-18"), pd.Timestamp("1970-03-14")
    activity, start, end = state.get if state.exists else ("", far, early)
    start, end = pd.Timestamp(start), pd.Timestamp(end)
    for frame in frames:
        for time, said in frame[["timestamp", "activity"]].itertuples(index=False):
            if pd.isna(time):
                continue
            if activity == said:
                start, end = min(start, time), max(end, time)
            elif time > end:
                activity, start, end = said, time, time
    state.update((activity, start, end))
    yield pd.DataFrame({"user": [key[0]], "activity": [activity], "start": [start], "end": [end]})


@listed(JOBS, inputs={"activity": _phones(2, 240)}, mode="update", sink="memory", keys=("user",))
def activity_spans_of_users(spark: SparkSession, read: Read) -> Any:
    spans = (
        read("activity")
        .selectExpr("*", _TIMED)
        .selectExpr("User as user", "cast(Creation_Time/1000000000 as timestamp) as timestamp", "gt as activity")
        .groupBy("user")
        .applyInPandasWithState(
            _span,
            "user string, activity string, start timestamp, end timestamp",
            "activity string, start timestamp, end timestamp",
            "update",
            "NoTimeout",
        )
    )
    return spans.writeStream.queryName("events_per_window").format("memory").outputMode("update")


def _five_hundred(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    values = json.loads(state.get[0]) if state.exists else []
    given = []
    for x in pd.concat(list(frames)).sort_values("timestamp", kind="stable")["x"]:
        values.append(float(x))
        if len(values) >= 500:
            given.append(sum(values) / len(values))
            values = []
    state.update((json.dumps(values), len(values)))
    yield pd.DataFrame({"device": [key[0]] * len(given), "previousAverage": pd.Series(given, dtype="float64")})


@listed(JOBS, inputs={"activity": _phones(2, 2600)}, mode="append", sink="memory")
def mean_of_each_five_hundred_values(spark: SparkSession, read: Read) -> Any:
    means = (
        read("activity")
        .selectExpr("*", _TIMED)
        .selectExpr("Device as device", "cast(Creation_Time/1000000000 as timestamp) as timestamp", "x")
        .groupBy("device")
        .applyInPandasWithState(
            _five_hundred,
            "device string, previousAverage double",
            "values string, count int",
            "append",
            "NoTimeout",
        )
    )
    return means.writeStream.queryName("count_based_device").format("memory").outputMode("append")


def _thousand(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    rows = pd.concat(list(frames)) if not state.hasTimedOut else pd.DataFrame({"timestamp": []})
    for row in rows.sort_values("timestamp", kind="stable").to_dict(orient="records"):
        activities, values = (json.loads(part) for part in state.get[1:]) if state.exists else ([], [])
        values.append(float(row["x"]))
        if row["activity"] not in activities:
            activities.append(row["activity"])
        if len(values) > 1000:
            if state.exists:
                state.remove()
            yield pd.DataFrame({"uid": [key[0]], "activities": [activities], "xAvg": [sum(values) / len(values)]})
        else:
            state.update((row["timestamp"], json.dumps(activities), json.dumps(values)))
            state.setTimeoutTimestamp(int(row["timestamp"].timestamp()) * 1000 + 5000)


@listed(JOBS, inputs={"activity": _phones(2, 3300)}, mode="append", sink="memory")
def sessions_of_five_seconds(spark: SparkSession, read: Read) -> Any:
    sessions = (
        read("activity")
        .selectExpr("*", _TIMED)
        .where("x is not null")
        .selectExpr("user as uid", "cast(Creation_Time/1000000000 as timestamp) as timestamp", "x", "gt as activity")
        .withWatermark("timestamp", "5 seconds")
        .groupBy("uid")
        .applyInPandasWithState(
            _thousand,
            "uid string, activities array<string>, xAvg double",
            "timestamp timestamp, activities string, values string",
            "append",
            "EventTimeTimeout",
        )
    )
    return sessions.writeStream.queryName("count_based_device").format("memory")


_MINUTE = 60_000


def _users_so_far(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    begin = int(key[0])
    if state.hasTimedOut:
        users, times, last = json.loads(state.get[0])
        state.remove()
        minutes = range(last, begin + 10 * _MINUTE - _MINUTE + 1, _MINUTE)
    else:
        users, times, last = json.loads(state.get[0]) if state.exists else ([], [], begin)
        known = dict(zip(users, times, strict=True))
        new: dict[str, int] = {}
        for frame in frames:
            for uid, time in frame[["uid", "timestamp"]].itertuples(index=False):
                moment = int(time.timestamp() * 1000)
                new[uid] = min(new.get(uid, moment), moment)
        newest = max(begin, (max(new.values()) - 1) // _MINUTE * _MINUTE)
        known = new | known
        users, times = list(known), list(known.values())
        state.update((json.dumps([users, times, newest]),))
        state.setTimeoutDuration(_MINUTE)
        minutes = range(last, newest, _MINUTE)
    rows = [(pd.Timestamp(minute, unit="ms"), sum(time < minute + _MINUTE for time in times)) for minute in minutes]
    yield pd.DataFrame(rows, columns=["timestamp", "dau"])


@listed(JOBS, inputs={"rate": rate(step=5)}, mode="append", sink="console", timeouts=1)
def distinct_users_so_far(spark: SparkSession, read: Read) -> Any:
    events = read("rate").select(F.col("value").cast("string").alias("uid"), F.col("timestamp"))
    begin = F.floor(F.unix_millis("timestamp") / 600_000) * 600_000
    users = (
        events.withColumn("partition_key", begin)
        .groupBy("partition_key")
        .applyInPandasWithState(
            _users_so_far,
            "timestamp timestamp, dau int",
            "daily string",
            "append",
            "ProcessingTimeTimeout",
        )
    )
    written = users.writeStream.format("console").option("truncate", "false").option("numRows", 10)
    return written.outputMode("append").trigger(processingTime="30 seconds")


def _signals(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    counts = json.loads(state.get[0]) if state.exists else {str(key[0]): 0}
    counts[str(key[0])] += sum(len(frame) for frame in frames)
    state.update((json.dumps(counts),))
    yield pd.DataFrame({"deviceId": [key[0]], "count": [counts[str(key[0])]]})


@listed(
    JOBS,
    inputs={
        "signals": series(
            "timestamp timestamp, value bigint, deviceId int",
            lambda n, s, random: {"timestamp": iso(s), "value": n, "deviceId": random.randint(0, 9)},
        )
    },
    mode="append",
    sink="console",
)
def signals_counted_per_device(spark: SparkSession, read: Read) -> Any:
    counts = (
        read("signals")
        .withColumn("value", F.col("value") % 10)
        .groupBy("deviceId")
        .applyInPandasWithState(_signals, "deviceId int, count bigint", "counts string", "append", "NoTimeout")
    )
    written = counts.writeStream.format("console").option("truncate", False)
    return written.trigger(processingTime="10 seconds").outputMode("append")
