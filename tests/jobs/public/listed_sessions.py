"""Second list: sessions by functions with state of their own"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..job import Job, Read, ending
from ..listed import listed
from ..making import epoch, iso, series, socket, topic

JOBS: list[Job] = []
#: Long after all other times.
_FAR_S = 40_000_000


def _burst(n: int, size: int = 8) -> int:
    """A key whose rows come close together: three keys at a time."""
    return n // (3 * size) * 3 + n % 3


def _place(n: int, size: int = 8) -> int:
    """Which row of its key it is."""
    return n % (3 * size) // 3


def _milliseconds(times: Any) -> list[int]:
    return [int(pd.Timestamp(time).timestamp()) * 1000 for time in times]


def _visit(n: int, s: int, random: Any) -> dict[str, Any]:
    return {"user_id": _burst(n), "page": f"page{random.randint(1, 9)}", "event_time": iso(s)}


def _map_visit(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        least, pages = state.get
        state.remove()
        yield pd.DataFrame({"session_id": [hash(str(least))], "user_id": [key[0]], "pages": [json.loads(pages)]})
        return
    watermark = state.getCurrentWatermarkMs()
    base, least, pages = watermark, None, []
    for frame in frames:
        pages = pages + list(frame["page"])
        if watermark == 0:
            base = int(frame["event_time"].max().timestamp()) * 1000
        if not state.exists:
            least = int(frame["append_time"].min()) * 1000
    state.setTimeoutTimestamp(base + 50 * 1000)
    if state.exists:
        least, before = state.get
        state.update((least, json.dumps(json.loads(before) + pages)))
    else:
        state.update((least, json.dumps(pages)))


@listed(
    JOBS,
    inputs={"visits": topic(_visit, step=4)},
    mode="update",
    sink="foreachBatch",
    keys=("session_id", "user_id"),
)
def sessions_with_keyed_id(spark: SparkSession, read: Read) -> Any:
    visits = (
        read("visits")
        .selectExpr("CAST(value AS STRING)", "timestamp")
        .select(
            F.from_json(F.col("value"), "user_id LONG, page STRING, event_time TIMESTAMP").alias("visit"),
            F.col("timestamp"),
        )
        .selectExpr("visit.*", "UNIX_TIMESTAMP(timestamp) AS append_time")
        .withWatermark("event_time", "10 seconds")
        .groupBy(F.col("user_id"))
    )
    sessions = visits.applyInPandasWithState(
        _map_visit,
        "session_id bigint, user_id bigint, pages array<string>",
        "min_append_time bigint, pages string",
        "update",
        "EventTimeTimeout",
    )

    def write(batch: DataFrame, number: int) -> None:
        read.store.upsert(batch, ["session_id", "user_id"])

    return sessions.writeStream.outputMode("update").foreachBatch(write)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000.0, tz=timezone.utc)


def _session(pages: Any) -> dict[str, Any]:
    ordered = sorted(json.loads(pages), key=lambda page: page["event_time_as_milliseconds"])
    first, last = ordered[0]["event_time_as_milliseconds"], ordered[-1]["event_time_as_milliseconds"]
    return {
        "start_time": [_time(first)],
        "end_time": [_time(last)],
        "visited_pages": [ordered],
        "duration_in_milliseconds": [last - first],
    }


_PAGES = "array<struct<page: string, event_time_as_milliseconds: bigint>>"


def _sessions_after(minutes: int, time: str, with_user: bool) -> Callable[..., Iterator[pd.DataFrame]]:
    """Pages are collected; the watermark that far behind a call ends the session; of its frames the last one counts."""

    def function(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            pages, *user = state.get
            session = {**_session(pages), "user_id": user if with_user else [key[0]]}
            state.remove()
            yield pd.DataFrame({"visit_id": [key[0]], **session} if with_user else session)
            return
        watermark = state.getCurrentWatermarkMs()
        base, new, user = watermark, [], []
        for frame in frames:
            frame["event_time_as_milliseconds"] = _milliseconds(frame[time])
            if watermark == 0:
                base = int(frame["event_time_as_milliseconds"].max())
            new = frame[["page", "event_time_as_milliseconds"]].to_dict(orient="records")
            if with_user:
                user = [frame.at[0, "user_id"]]
        before = "[]"
        if state.exists:
            before, *user = state.get
        state.update((json.dumps(json.loads(before) + new), *user))
        state.setTimeoutTimestamp(base + minutes * 60 * 1000)

    return function


@listed(
    JOBS,
    inputs={
        "visits": ending(
            series(
                "user_id bigint, visit_time timestamp, page string",
                lambda n, s, random: {
                    "user_id": _burst(n),
                    "visit_time": iso(s),
                    "page": f"page{random.randint(1, 9)}",
                },
            ),
            {"user_id": -1, "visit_time": iso(_FAR_S), "page": "end"},
        )
    },
    mode="append",
    sink="delta",
    trigger="availableNow",
)
def sessions_of_forty_minutes(spark: SparkSession, read: Read) -> Any:
    visits = read("visits").withWatermark("visit_time", "15 minutes").groupBy(F.col("user_id"))
    sessions = visits.applyInPandasWithState(
        _sessions_after(40, "visit_time", False),
        f"start_time timestamp, end_time timestamp, visited_pages {_PAGES}, duration_in_milliseconds bigint,"
        " user_id bigint",
        "visits string",
        "append",
        "EventTimeTimeout",
    )
    return sessions.writeStream.outputMode("append").trigger(availableNow=True).format("delta")


_CONTEXT = (
    "visit_id STRING, event_time TIMESTAMP, user_id STRING, page STRING, context STRUCT<referral: STRING,"
    " ad_id: STRING, user: STRUCT<ip: STRING, login: STRING, connected_since: TIMESTAMP>, technical: STRUCT<"
    "browser: STRING, browser_version: STRING, network_type: STRING, device_type: STRING, device_version: STRING>>"
)


@listed(
    JOBS,
    inputs={
        "visits": topic(
            lambda n, s, random: {
                "visit_id": f"visit{_burst(n)}",
                "event_time": iso(s),
                "user_id": f"user{_burst(n)}",
                "page": f"page{random.randint(1, 9)}",
                "context": {"referral": "x", "user": {"ip": "1.2.3.4"}, "technical": {"browser": "Firefox"}},
            }
        )
    },
    mode="update",
    sink="kafka",
    keys=("value",),
)
def sessions_of_visits_to_kafka(spark: SparkSession, read: Read) -> Any:
    visits = (
        read("visits")
        .select(F.from_json(F.col("value").cast("string"), _CONTEXT).alias("value"))
        .selectExpr("value.*")
        .withWatermark("event_time", "1 minute")
        .groupBy(F.col("visit_id"))
    )
    sessions = visits.applyInPandasWithState(
        _sessions_after(10, "event_time", True),
        f"visit_id string, user_id string, start_time timestamp, end_time timestamp, visited_pages {_PAGES},"
        " duration_in_milliseconds bigint",
        "visits string, user_id string",
        "update",
        "EventTimeTimeout",
    )
    texts = sessions.withColumn("value", F.to_json(F.struct("*"))).select("value")
    return texts.writeStream.outputMode("update").format("kafka").option("topic", "sessions")


def _count_until_silence(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        (count, _) = state.get
        state.remove()
        yield pd.DataFrame({"userId": [key[0]], "count": [count]})
        return
    count, greatest = state.get if state.exists else (0, 0)
    for frame in frames:
        count += len(frame)
        greatest = max([greatest, *_milliseconds(frame["eventTime"])])
    state.update((count, greatest))
    state.setTimeoutTimestamp(greatest + 2 * 60 * 1000)
    yield pd.DataFrame({"userId": pd.array([None], "Int32"), "count": pd.array([None], "Int32")})


@listed(
    JOBS,
    inputs={
        "visits": topic(
            lambda n, s, random: {"userId": _burst(n), "page": f"page{n % 7}", "eventTime": iso(s)}, step=12
        )
    },
    mode="update",
    sink="console",
    keys=("userId",),
)
def visits_count_after_last_event(spark: SparkSession, read: Read) -> Any:
    visits = (
        read("visits")
        .select(
            F.from_json(F.col("value").cast("string"), "userId int, page string, eventTime timestamp").alias("value")
        )
        .select("value.*")
        .withWatermark("eventTime", "4 minutes")
        .groupBy("userId")
    )
    counts = visits.applyInPandasWithState(
        _count_until_silence, "userId int, count int", "count int, greatest bigint", "update", "EventTimeTimeout"
    )
    return counts.filter(F.col("userId").isNotNull()).writeStream.outputMode("update").format("console")


_INTERMEDIARY = (
    f"userId bigint, visitedPages {_PAGES}, browser string, language string, site string, apiVersion string,"
    " expirationTimeMillisUtc bigint, isActive boolean"
)


def _intermediary(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    names = [part.split(" ")[0] for part in _INTERMEDIARY.replace(_PAGES, "pages").split(", ")]
    if state.hasTimedOut:
        expired = (*json.loads(state.get[0])[:-1], False)
        state.remove()
        yield pd.DataFrame({name: [value] for name, value in zip(names, expired, strict=True)})
        return
    rows = pd.concat(list(frames))
    times = _milliseconds(rows["event_time"])
    pages = [
        {"page": page, "event_time_as_milliseconds": time}
        for time, page in sorted(zip(times, rows["page"], strict=True), key=lambda row: row[0])
    ]
    expiry = pages[-1]["event_time_as_milliseconds"] + 20 * 60 * 1000
    if state.exists:
        user, before, *rest = json.loads(state.get[0])
        given = (user, before + pages, *rest[:-2], expiry, True)
    else:
        head = rows.iloc[0]
        given = (int(key[0]), pages, head["browser"], head["language"], head["site"], head["version"], expiry, True)
    state.update((json.dumps(given),))
    state.setTimeoutTimestamp(expiry)
    yield pd.DataFrame({name: [value] for name, value in zip(names, given, strict=True)})


def _by_number(spark: SparkSession, folder: str) -> Any:
    """What the folders of the batches hold, in the order of their numbers."""
    rows = spark.read.schema(_INTERMEDIARY).json(os.path.join(folder, "*"))
    number = F.element_at(F.split(F.input_file_name(), "/"), -2).cast("bigint")
    return rows.withColumn("number", number).orderBy("number").drop("number").coalesce(1)


@listed(
    JOBS,
    inputs={
        "visits": topic(
            lambda n, s, random: {
                "user_id": _burst(n),
                "event_time": iso(s),
                "page": f"page{random.randint(1, 9)}",
                "browser": "Firefox",
                "language": "fr",
                "site": "partner",
                "version": "1.0",
            }
        )
    },
    mode="update",
    sink="foreachBatch",
    keys=("userId",),
    holds=lambda spark, read: _by_number(spark, read.path("sessions")),
)
def sessions_of_users_in_batches(spark: SparkSession, read: Read) -> Any:
    schema = (
        "user_id bigint, event_time timestamp, page string, browser string, language string, site string,"
        " version string"
    )
    visits = (
        read("visits")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json(F.col("value"), schema).alias("data"))
        .select("data.*")
        .withWatermark("event_time", "10 minutes")
        .groupBy("user_id")
    )
    sessions = visits.applyInPandasWithState(
        _intermediary, _INTERMEDIARY, "session string", "update", "EventTimeTimeout"
    )
    folder = read.path("sessions")

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").json(os.path.join(folder, str(batch_id)))

    return sessions.writeStream.outputMode("update").foreachBatch(write)


def _activities(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    status, start, end, last, pages = state.get if state.exists else ("", None, None, None, 0)
    given: list[tuple[Any, ...]] = []
    rows = pd.concat(list(frames)) if not state.hasTimedOut else pd.DataFrame({"ts": [], "action": []})
    for action, time in rows.sort_values("ts")[["action", "ts"]].itertuples(index=False):
        if action == "login":
            start, status = time, "Online"
        elif action == "logout":
            end, status = time, "Offline"
        else:
            pages, status = pages + 1, "Active"
        last = time
        if action == "login":
            given.append((key[0], start, end, 0))
    if state.hasTimedOut or end is not None:
        if state.hasTimedOut:
            end = pd.Timestamp(state.getCurrentWatermarkMs(), unit="ms")
        if state.exists:
            state.remove()
        given.append((key[0], start, end, pages))
    else:
        state.update((status, start, end, last, pages))
        state.setTimeoutTimestamp(_milliseconds([last])[0] + 30 * 60 * 1000)
    if given:
        yield pd.DataFrame(given, columns=["userId", "start", "end", "numPage"])


@listed(
    JOBS,
    inputs={
        "activity": series(
            "user string, action string, page string, ts timestamp",
            lambda n, s, random: {
                "user": f"user{_burst(n)}",
                "action": {0: "login", 7: "logout"}.get(_place(n), "click"),
                "page": f"page{random.randint(1, 9)}",
                "ts": iso(s),
            },
        )
    },
    mode="append",
    sink="console",
)
def user_activity_sessions(spark: SparkSession, read: Read) -> Any:
    activity = read("activity").withWatermark("ts", "30 minutes").groupBy("user")
    sessions = activity.applyInPandasWithState(
        _activities,
        "userId string, start timestamp, end timestamp, numPage int",
        "status string, startTS timestamp, endTS timestamp, lastTS timestamp, numPage int",
        "append",
        "EventTimeTimeout",
    )
    return sessions.writeStream.format("console").option("truncate", False).outputMode("append")


def _until_last(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        state.remove()
        return
    events = json.loads(state.get[0]) if state.exists else []
    ended = False
    for frame in frames:
        events += list(frame["data"])
        ended = ended or bool(frame["isLast"].any())
    if ended:
        if state.exists:
            state.remove()
        yield pd.DataFrame({"id": [key[0]], "events": [events]})
    else:
        state.update((json.dumps(events),))
        state.setTimeoutDuration(60_000)


@listed(
    JOBS,
    inputs={
        "events": socket(
            lambda n, s, random: {"id": _burst(n), "data": f"d{random.randint(1, 99)}", "isLast": _place(n) == 7}
        )
    },
    mode="update",
    sink="console",
    keys=("id",),
    timeouts=30,
)
def sessions_until_last_event(spark: SparkSession, read: Read) -> Any:
    events = read("events").select(F.from_json("value", "id int, data string, isLast boolean").alias("e")).select("e.*")
    sessions = events.groupBy("id").applyInPandasWithState(
        _until_last, "id int, events array<string>", "events string", "update", "ProcessingTimeTimeout"
    )
    return sessions.writeStream.outputMode("update").format("console").option("truncate", False)


def _until_signal(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total = state.get[0] if state.exists else 0.0
    ended = False
    for frame in frames:
        total += float(frame["value"].sum())
        ended = ended or bool(frame["endSignal"].notna().any())
    state.update((total,))
    if ended:
        state.remove()
    yield pd.DataFrame({"id": [key[0]], "totalSum": [total], "expired": [ended]})


@listed(
    JOBS,
    inputs={
        "lines": socket(
            lambda n, s, random: f"s{_burst(n)},{random.randint(1, 99)}" + (",end" if _place(n) == 7 else "")
        )
    },
    mode="update",
    sink="console",
    keys=("id",),
)
def sum_until_end_signal(spark: SparkSession, read: Read) -> Any:
    tokens = F.split("value", ",")
    events = read("lines").select(
        tokens[0].alias("sessionId"),
        tokens[1].cast("double").alias("value"),
        F.get(tokens, F.lit(2)).alias("endSignal"),
    )
    sums = events.groupBy("sessionId").applyInPandasWithState(
        _until_signal, "id string, totalSum double, expired boolean", "totalSum double", "update", "NoTimeout"
    )
    return sums.writeStream.outputMode("update").format("console").option("truncate", False)


def _merged(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    import sys
    import time

    user, clicks, start, end = state.get if state.exists else (key[0], 0, sys.maxsize, 0)
    status = "offline"
    if state.hasTimedOut:
        state.remove()
    else:
        for frame in frames:
            start = min(start, int(frame["event_date"].min()))
            end = max(end, int(frame["event_date"].max()))
            clicks += len(frame)
        state.update((user, int(clicks), int(start), int(end)))
        state.setTimeoutDuration(30000)
        status = "offline" if end >= int(time.time()) - 30000 else "online"
    yield pd.DataFrame(
        {"user_id": [user], "click_count": [clicks], "start_time": [start], "end_time": [end], "status": [status]}
    )


@listed(
    JOBS,
    inputs={
        "events": series(
            "user_id string, platform string, event_id string, event_date bigint, action string",
            lambda n, s, random: {
                "user_id": f"u{random.randint(1, 7)}",
                "platform": "ios",
                "event_id": f"e{n}",
                "event_date": epoch(s),
                "action": "view",
            },
        )
    },
    mode="append",
    sink="foreachBatch",
    timeouts=7,
)
def user_sessions_merged(spark: SparkSession, read: Read) -> Any:
    schema = "user_id STRING, click_count LONG, start_time LONG, end_time LONG"
    sessions = (
        read("events")
        .groupBy(F.col("user_id"))
        .applyInPandasWithState(_merged, f"{schema}, status STRING", schema, "append", "ProcessingTimeTimeout")
    )

    def upsert_sessions(batch: DataFrame, epoch_id: int) -> None:
        if epoch_id == 0:
            read.store.append(batch.limit(0))
        read.store.merge(batch, ["user_id"])

    return sessions.writeStream.foreachBatch(upsert_sessions)


def _complex(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """A session is a list of (start, end, closes)."""
    sessions: list[list[tuple[int, int, bool]]] = []
    if state.exists:
        sessions = [[tuple(event) for event in one] for one in json.loads(state.get[0])]
    if not state.hasTimedOut:
        for frame in frames:
            for kind, time in frame[["event_type", "timestamp"]].itertuples(index=False):
                start, closes = _milliseconds([time])[0], kind == "CLOSE_SESSION"
                sessions.append([(start, start if closes else start + 5000, closes)])
        sessions = _merge(sorted(sessions, key=lambda one: one[0][0]))
    sessions.sort(key=lambda one: one[0][0])
    kept = 0
    while kept < len(sessions) and sessions[kept][-1][1] < state.getCurrentWatermarkMs():
        kept += 1
    evicted, sessions = sessions[:kept], sessions[kept:]
    if sessions:
        state.update((json.dumps(sessions),))
        state.setTimeoutTimestamp(sessions[0][-1][1])
    elif state.exists:
        state.remove()
    if evicted:
        yield pd.DataFrame(
            {
                "id": [key[0]] * len(evicted),
                "durationMs": [one[-1][1] - one[0][0] for one in evicted],
                "numEvents": [len(one) for one in evicted],
            }
        )


def _merge(sessions: list[list[tuple[int, int, bool]]]) -> list[list[tuple[int, int, bool]]]:
    place = 0
    while place < len(sessions) - 1:
        if sessions[place][-1][1] > sessions[place + 1][0][0]:
            cut: list[list[tuple[int, int, bool]]] = [[]]
            for event in sorted(sessions[place] + sessions[place + 1], key=lambda one: one[0]):
                cut[-1].append(event)
                if event[2]:
                    cut.append([])
            cut = [one for one in cut if one]
            sessions[place : place + 2] = cut
            place += len(cut) - 1
        else:
            place += 1
    return sessions


@listed(
    JOBS,
    inputs={
        "events": socket(
            lambda n, s, random: {
                "user_id": f"user{random.randint(1, 3)}",
                "event_type": "CLOSE_SESSION" if n % 9 == 0 else "NEW_EVENT",
                "timestamp": iso(s),
            },
            step=3,
        )
    },
    mode="append",
    sink="console",
)
def sessions_closed_by_an_event(spark: SparkSession, read: Read) -> Any:
    schema = "user_id string, event_type string, timestamp timestamp"
    events = (
        read("events")
        .select(F.from_json(F.col("value"), schema).alias("event"))
        .selectExpr("event.user_id AS user_id", "event.event_type AS event_type", "event.timestamp AS timestamp")
        .withWatermark("timestamp", "10 seconds")
    )
    sessions = events.groupBy("user_id").applyInPandasWithState(
        _complex,
        "id string, durationMs bigint, numEvents int",
        "sessions string",
        "append",
        "EventTimeTimeout",
    )
    return sessions.writeStream.outputMode("append").format("console")
