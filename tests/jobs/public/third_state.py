"""Third list: functions and processors with state of their own, and sinks"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ..job import ROCKS, Job, Read
from ..listed import listed
from ..making import iso, series

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS: list[Job] = []

_READINGS = series(
    "sensor string, value double",
    lambda n, s, random: {"sensor": f"s{random.randint(1, 5)}", "value": random.randint(0, 400) / 4},
)


def _smoothed(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    mean, count = state.get if state.exists else (0.0, 0)
    for frame in frames:
        for value in frame["value"]:
            mean = float(value) if count == 0 else 0.8 * mean + 0.2 * float(value)
            count += 1
    state.update((mean, count))
    yield pd.DataFrame({"sensor": [key[0]], "mean": [mean], "count": [count]})


@listed(JOBS, inputs={"readings": _READINGS}, mode="update", sink="foreachBatch", keys=("sensor",))
def moving_average_in_pandas_state(spark: SparkSession, read: Read) -> Any:
    means = (
        read("readings")
        .groupBy("sensor")
        .applyInPandasWithState(
            _smoothed, "sensor string, mean double, count long", "mean double, count long", "update", "NoTimeout"
        )
    )
    return means.writeStream.outputMode("update").foreachBatch(lambda batch, batch_id: read.store.append(batch))


def _idle(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        start, end, count = state.get
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "start": [start], "end": [end], "count": [count]})
        return
    start, end, count = state.get if state.exists else (None, 0, 0)
    for frame in frames:
        seconds = [int(time.timestamp()) for time in frame["ts"]]
        start = min(seconds) if start is None else min(start, *seconds)
        end, count = max(end, *seconds), count + len(frame)
    state.update((start, end, count))
    state.setTimeoutTimestamp((end + 600) * 1000)


@listed(
    JOBS,
    inputs={
        "events": series(
            "user string, ts timestamp", lambda n, s, random: {"user": f"u{n // 15 % 6}", "ts": iso(s)}, step=40
        )
    },
    mode="append",
    sink="console",
)
def idle_users_by_event_time_timeout(spark: SparkSession, read: Read) -> Any:
    idle = (
        read("events")
        .withWatermark("ts", "5 minutes")
        .groupBy("user")
        .applyInPandasWithState(
            _idle,
            "user string, start long, end long, count long",
            "start long, end long, count long",
            "append",
            "EventTimeTimeout",
        )
    )
    return idle.writeStream.outputMode("append").format("console")


class _Inactive(StatefulProcessor):
    """A device that is silent for ten minutes."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._last = handle.getValueState("last", "ms long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        last = self._last.get()[0] if self._last.exists() else 0
        for row in rows:
            last = max(last, int(row.ts.timestamp() * 1000))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._last.update((last,))
        self._handle.registerTimer(last + 600_000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        (last,) = self._last.get()
        self._last.clear()
        yield Row(device=key[0], last=last)

    def close(self) -> None:
        pass


@listed(
    JOBS,
    inputs={
        "beats": series(
            "device string, ts timestamp", lambda n, s, random: {"device": f"d{n // 20 % 5}", "ts": iso(s)}, step=40
        )
    },
    mode="append",
    sink="foreachBatch",
    session=ROCKS,
)
def inactive_devices_by_timer(spark: SparkSession, read: Read) -> Any:
    alerts = (
        read("beats")
        .withWatermark("ts", "1 minute")
        .groupBy("device")
        .transformWithState(_Inactive(), "device string, last long", "append", "eventTime")
    )
    return alerts.writeStream.outputMode("append").foreachBatch(lambda batch, batch_id: read.store.append(batch))


class _Top(StatefulProcessor):
    """The product that a user has bought most of."""

    def init(self, handle: Any) -> None:
        self._bought = handle.getMapState("bought", "product string", "quantity long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for product, quantity in frame.groupby("product")["quantity"].sum().items():
                before = self._bought.getValue((product,))[0] if self._bought.containsKey((product,)) else 0
                self._bought.updateValue((product,), (before + int(quantity),))
        quantity, product = max((value[0], key[0]) for key, value in self._bought.iterator())
        yield pd.DataFrame({"user": [key[0]], "product": [product], "quantity": [quantity]})

    def close(self) -> None:
        pass


@listed(
    JOBS,
    inputs={
        "sales": series(
            "user string, product string, quantity bigint",
            lambda n, s, random: {
                "user": f"u{random.randint(1, 5)}",
                "product": f"p{random.randint(1, 4)}",
                "quantity": random.randint(1, 5),
            },
        )
    },
    mode="update",
    sink="console",
    keys=("user",),
    session=ROCKS,
)
def top_product_by_map_state(spark: SparkSession, read: Read) -> Any:
    top = (
        read("sales")
        .groupBy("user")
        .transformWithStateInPandas(
            statefulProcessor=_Top(),
            outputStructType="user string, product string, quantity long",
            outputMode="Update",
            timeMode="None",
        )
    )
    return top.writeStream.outputMode("update").format("console")


class _LastThree(StatefulProcessor):
    """The average of each reading and the two before it."""

    def init(self, handle: Any) -> None:
        self._last = handle.getListState("last", "value double")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        last = [value[0] for value in self._last.get()] if self._last.exists() else []
        for row in rows:
            last = [*last, row.value][-3:]
            yield Row(sensor=key[0], value=row.value, mean=sum(last) / len(last))
        self._last.put([(value,) for value in last])

    def close(self) -> None:
        pass


@listed(JOBS, inputs={"readings": _READINGS}, mode="append", sink="console", session=ROCKS)
def average_of_last_three_by_list_state(spark: SparkSession, read: Read) -> Any:
    means = (
        read("readings")
        .groupBy("sensor")
        .transformWithState(_LastThree(), "sensor string, value double, mean double", "append", "none")
    )
    return means.writeStream.outputMode("append").format("console")


_ACCOUNTS = series(
    "account string, amount bigint",
    lambda n, s, random: {"account": f"a{random.randint(1, 12)}", "amount": random.randint(-50, 99)},
)


@listed(JOBS, inputs={"bookings": _ACCOUNTS}, mode="update", sink="foreachBatch", keys=("account",))
def totals_merged_and_audited(spark: SparkSession, read: Read) -> Any:
    totals = read("bookings").groupBy("account").agg(F.sum("amount").alias("balance"), F.count("*").alias("n"))
    audit = []

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        read.store.merge(batch, ["account"])
        audit.append((batch_id, batch.count()))
        batch.unpersist()

    return totals.writeStream.outputMode("update").foreachBatch(write)


class _Writer:
    """Appends each row to a file, as a writer to a database that has no batches."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self.file = open(f"{self.path}/{epoch_id:06d}-{partition_id}.txt", "a")  # noqa: SIM115
        return True

    def process(self, row: Row) -> None:
        self.file.write(f"{row.account} {row.total}\n")

    def close(self, error: Exception | None) -> None:
        self.file.close()


def _final_totals(spark: SparkSession, read: Read) -> Any:
    """The greatest number of rows of each account says its last total."""
    from pathlib import Path

    lines = [line for file in sorted(Path(read.path("rows")).glob("*.txt")) for line in file.read_text().splitlines()]
    return [f"{account} {total}" for account, total in sorted(dict(line.split() for line in lines).items())]


@listed(
    JOBS,
    inputs={"rows": _ACCOUNTS},
    mode="update",
    sink="foreach",
    keys=("line",),
    holds=_final_totals,
)
def rows_written_by_a_foreach_writer(spark: SparkSession, read: Read) -> Any:
    totals = read("rows").groupBy("account").agg(F.sum("amount").alias("total"))
    return totals.writeStream.outputMode("update").foreach(_Writer(read.path("rows")))
