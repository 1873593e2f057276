"""Second list: processors"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from ..job import ROCKS, Job, Read, ending
from ..listed import listed
from ..making import fixed, iso, series, topic

JOBS: list[Job] = []
#: Long after all other times.
_FAR_S = 40_000_000
_TEN_MINUTES = 10 * 60 * 1000


class Points(StatefulProcessor):
    """Adds points to those that a login had at the beginning."""

    def init(self, handle: Any) -> None:
        self._points = handle.getValueState("points", "points int")

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        self._points.update((initialState.points,))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self._points.get()[0] if self._points.exists() else 0
        points = sum(row.points for row in rows) + before
        self._points.update((points,))
        yield Row(value=points)

    def close(self) -> None:
        pass


@listed(
    JOBS,
    inputs={
        "logs": series(
            "login string, points int",
            lambda n, s, random: {"login": f"user{random.randint(1, 5)}", "points": random.randint(1, 9)},
        )
    },
    tables={"default": fixed("login string, points int", [{"login": f"user{n}", "points": 10 * n} for n in (1, 2, 3)])},
    mode="update",
    sink="console",
    keys=("value",),
    timeouts=1,
    session=ROCKS,
)
def points_with_initial_state(spark: SparkSession, read: Read) -> Any:
    points = (
        read("logs")
        .groupBy("login")
        .transformWithState(
            Points(), "value int", "Update", "ProcessingTime", initialState=read.static("default").groupBy("login")
        )
    )
    return points.writeStream.outputMode("update").format("console")


class Numbers(StatefulProcessor):
    """All numbers of a letter, those of the beginning first."""

    def init(self, handle: Any) -> None:
        self._numbers = handle.getListState("numbers", "number int")

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        self._numbers.appendValue((initialState.number,))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._numbers.appendValue((row.number,))
        yield Row(value=f"{key[0]} = " + "; ".join(str(number[0]) for number in self._numbers.get()))

    def close(self) -> None:
        pass


@listed(
    JOBS,
    inputs={
        "numbers": series(
            "letter string, number int", lambda n, s, random: {"letter": random.choice("abcd"), "number": n}
        )
    },
    tables={
        "initial": fixed(
            "letter string, number int",
            [{"letter": letter, "number": number} for letter, number in (("a", 1), ("b", 2), ("a", 1))],
        )
    },
    mode="append",
    sink="console",
    session=ROCKS,
)
def numbers_after_initial_list(spark: SparkSession, read: Read) -> Any:
    numbers = (
        read("numbers")
        .groupBy("letter")
        .transformWithState(
            Numbers(), "value string", "Update", "None", initialState=read.static("initial").groupBy("letter")
        )
    )
    return numbers.writeStream.format("console").option("truncate", False)


_PAGES = "array<struct<page: string, visit_time: timestamp>>"
_SESSION = (
    "visit_id string, user_id string, start_time timestamp, end_time timestamp, visited_pages array<string>,"
    " device_type string, device_version string, isPartial boolean"
)


class VisitSession(StatefulProcessor):
    """A session of pages, device and user; 40 minutes behind the watermark of its last call it ends."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._session = handle.getValueState(
            "session", f"visits {_PAGES}, device_type string, device_version string, user_id string"
        )

    def handleInitialState(self, key: Any, initialState: Row, timerValues: Any) -> None:
        pages = [Row(page=one["page"], visit_time=one["visit_time"]) for one in initialState.visits]
        self._session.update((pages, initialState.device_type, initialState.device_version, initialState.user_id))
        self._handle.registerTimer(self._milliseconds(max(page.visit_time for page in pages)) + 4 * _TEN_MINUTES)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        pages = list(self._session.get()[0]) if self._session.exists() else []
        watermark = timerValues.getCurrentWatermarkInMs()
        base, kind, version, user = watermark, None, None, None
        for row in rows:
            if watermark == 0:
                base = max(base, self._milliseconds(row.event_time))
            user = row.user_id
            kind = row.device_type if kind is None else kind
            version = row.device_version if version is None else version
            pages.append(Row(page=row.page, visit_time=row.event_time))
        self._session.update((pages, kind, version, user))
        for timer in self._handle.listTimers():
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(base + 4 * _TEN_MINUTES)
        yield self._given(key[0], True)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        given = self._given(key[0], False)
        self._session.clear()
        yield given

    def close(self) -> None:
        pass

    def _given(self, visit: str, partial: bool) -> Row:
        pages, kind, version, user = self._session.get()
        ordered = sorted(pages, key=lambda page: page[1])
        return Row(
            visit_id=visit,
            user_id=user,
            start_time=ordered[0][1],
            end_time=ordered[-1][1],
            visited_pages=[f"{page[0]} {page[1]}" for page in ordered],
            device_type=kind,
            device_version=version,
            isPartial=partial,
        )

    @staticmethod
    def _milliseconds(time: Any) -> int:
        return int(time.replace(tzinfo=datetime.timezone.utc).timestamp()) * 1000


def _visit(n: int, s: int, random: Any) -> dict[str, Any]:
    return {
        "visit_id": f"visit{n // 24 * 3 + n % 3}",
        "event_time": iso(s),
        "page": f"page{random.randint(1, 9)}",
        "user_id": f"user{n // 24 * 3 + n % 3}" if n % 24 > 5 else None,
        "device_type": "mac" if n % 5 else None,
        "device_version": "10",
    }


@listed(
    JOBS,
    inputs={
        "visits": ending(
            series(
                "visit_id string, event_time timestamp, page string, user_id string, device_type string,"
                " device_version string",
                _visit,
            ),
            {"visit_id": "end", "event_time": iso(_FAR_S), "page": "end"},
        )
    },
    tables={
        "initial": fixed(
            f"visit_id string, device_type string, device_version string, user_id string, visits {_PAGES}",
            [
                {
                    "visit_id": "visit1",
                    "device_type": "mac",
                    "device_version": "10",
                    "user_id": None,
                    "visits": [
                        {"page": "home", "visit_time": iso(-700)},
                        {"page": "contact", "visit_time": iso(-640)},
                    ],
                }
            ],
        )
    },
    mode="update",
    sink="console",
    keys=("visit_id",),
    session=ROCKS,
)
def visits_session_with_initial_state(spark: SparkSession, read: Read) -> Any:
    sessions = (
        read("visits")
        .withWatermark("event_time", "5 minutes")
        .groupBy("visit_id")
        .transformWithState(
            VisitSession(), _SESSION, "Update", "EventTime", initialState=read.static("initial").groupBy("visit_id")
        )
    )
    return sessions.writeStream.format("console").option("truncate", False).outputMode("update")


class Letters(StatefulProcessor):
    """All letters of an id in one value."""

    def init(self, handle: Any) -> None:
        self._letters = handle.getValueState("letterState", "lowerLetters array<string>")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = list(self._letters.get()[0]) if self._letters.exists() else []
        letters = before + [row.lowerCase for row in rows]
        self._letters.update((letters,))
        yield Row(value=f"{key[0]} = {letters}")

    def close(self) -> None:
        pass


@listed(
    JOBS,
    inputs={
        "letters": series(
            "id int, lowerCase string",
            lambda n, s, random: {"id": random.randint(1, 4), "lowerCase": random.choice("abcdefgh")},
        )
    },
    mode="update",
    sink="console",
    keys=("value",),
    trigger="availableNow",
    session={**ROCKS, "spark.sql.streaming.stateStore.encodingFormat": "avro"},
)
def letters_in_value_state(spark: SparkSession, read: Read) -> Any:
    letters = read("letters").groupBy("id").transformWithState(Letters(), "value string", "Update", "None")
    written = letters.writeStream.format("console").trigger(availableNow=True)
    return written.outputMode("update").option("truncate", False)


def _milliseconds(times: Any) -> list[int]:
    return [int(pd.Timestamp(time).timestamp()) * 1000 for time in times]


class VisitLength(StatefulProcessor):
    """Pages of a visit, said with each call and once more when it ends."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._pages = handle.getValueState("durationState", "visited_pages int")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        pages = self._pages.get()[0] if self._pages.exists() else 0
        last = -1
        for frame in rows:
            pages += len(frame.index)
            last = max([last, *_milliseconds(frame["event_time"])])
        self._pages.update((pages,))
        for timer in self._handle.listTimers():
            self._handle.deleteTimer(timer)
        self._handle.registerTimer((timerValues.getCurrentWatermarkInMs() or last) + _TEN_MINUTES)
        yield pd.DataFrame({"visit_id": [key[0]], "visited_pages": [pages], "is_finished": [False]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        pages = self._pages.get()[0]
        yield pd.DataFrame({"visit_id": [key[0]], "visited_pages": [pages], "is_finished": [True]})

    def close(self) -> None:
        pass


VISITS = topic(
    lambda n, s, random: {
        "event_id": f"e{n}",
        "visit_id": n // 24 * 3 + n % 3,
        "event_time": iso(s),
        "page": f"page{random.randint(1, 9)}",
    }
)


@listed(JOBS, inputs={"visits": VISITS}, mode="update", sink="console", keys=("visit_id",), session=ROCKS)
def visit_length_with_timer(spark: SparkSession, read: Read) -> Any:
    schema = "event_id STRING, visit_id INT, event_time TIMESTAMP, page STRING"
    visits = (
        read("visits")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json(F.col("value"), schema).alias("data"))
        .select("data.*")
        .withWatermark("event_time", "15 minutes")
        .groupBy(F.col("visit_id"))
        .transformWithStateInPandas(
            statefulProcessor=VisitLength(),
            outputStructType="visit_id int, visited_pages int, is_finished boolean",
            timeMode="eventTime",
            outputMode="update",
        )
    )
    return visits.writeStream.outputMode("update").format("console").option("truncate", False)


class VisitsCutByGap(StatefulProcessor):
    """Sessions of a user that a gap of ten minutes cuts."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState(
            "durationState", "visited_pages int, first_event_time timestamp, previous_event_time timestamp"
        )

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        pages, first, previous = self._state.get() if self._state.exists() else (0, None, None)
        last: Any = 0
        for frame in rows:
            for visit in frame.sort_values(by="event_time", ascending=True).to_dict(orient="records"):
                time = visit["event_time"]
                if not previous:
                    first = previous = time
                if (time - previous).total_seconds() > _TEN_MINUTES / 1000:
                    yield self._given(key[0], first, pages, True)
                    pages, first = 1, time
                else:
                    pages += 1
                previous = last = time
        self._state.update((pages, first, previous))
        for timer in self._handle.listTimers():
            self._handle.deleteTimer(timer)
        base = timerValues.getCurrentWatermarkInMs() or _milliseconds([last])[0]
        self._handle.registerTimer(base + _TEN_MINUTES)
        yield self._given(key[0], first, pages, False)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        pages, first, _ = self._state.get()
        yield self._given(key[0], first, pages, True)

    def close(self) -> None:
        pass

    @staticmethod
    def _given(user: str, first: Any, pages: int, finished: bool) -> pd.DataFrame:
        visit = f"{first.strftime('%Y%m%d_%H%M%S')}-{user}"
        return pd.DataFrame({"visit_id": [visit], "visited_pages": [pages], "is_finished": [finished]})


@listed(
    JOBS,
    inputs={
        "visits": topic(
            lambda n, s, random: {
                "visit_id": f"v{n}",
                "event_time": iso(s + n // 30 * 1500),
                "user_id": f"user{random.randint(1, 4)}",
                "page": f"page{random.randint(1, 9)}",
            }
        )
    },
    mode="append",
    sink="kafka",
    session=ROCKS,
)
def visit_sessions_cut_by_gap(spark: SparkSession, read: Read) -> Any:
    schema = "visit_id STRING, event_time TIMESTAMP, user_id STRING, page STRING"
    visits = (
        read("visits")
        .selectExpr("CAST(value AS STRING)")
        .select(F.from_json(F.col("value"), schema).alias("data"))
        .select("data.*")
        .withWatermark("event_time", "15 minutes")
        .groupBy(F.col("user_id"))
        .transformWithStateInPandas(
            statefulProcessor=VisitsCutByGap(),
            outputStructType="visit_id string, visited_pages int, is_finished boolean",
            timeMode="eventTime",
            outputMode="update",
        )
        .selectExpr("TO_JSON(STRUCT(*)) AS value")
    )
    return visits.writeStream.format("kafka").option("topic", "sessions")
