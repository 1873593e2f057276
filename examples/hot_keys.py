"""Rules that change while the query runs: the shards tell what they see, a coordinator decides, the shards obey.

A processor reports flights that leave late, by destination.  How late is a rule, and one rule does not fit all: at busy
airports it would flood its readers.  No shard sees all airports, so each tells the coordinator how many late flights it
has had; the coordinator finds the hot ones and broadcasts new limits to all shards.  Each end gets each event once and
in order, also over restarts, so a killed run that is started again reports exactly what an undisturbed one would under
the same rules.

    python examples/hot_keys.py [--folder .demo]
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mixedmode
from flights.data import SCHEMA, Flights, prepare
from flights.session import start_session
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

_ROOT = Path(__file__).resolve().parent.parent
OUTPUT = "dest string, ts timestamp, delay int, rules int"
HOT_AIRPORTS = 5
#: Reports that count: what is hot now, not what was hot once.
WINDOW = 150


@dataclass(frozen=True)
class Late:
    """From a shard: so many flights to this airport have left late since the last event."""

    dest: str
    flights: int


@dataclass(frozen=True)
class Rules:
    """From the coordinator: flights are reported that leave later than this, in minutes."""

    version: int = 0
    limit: int = 120
    #: Limits of airports of their own.
    limits: dict[str, int] = field(default_factory=dict)


class LateFlights(StatefulProcessor):
    """Reports late flights by the rules of its shard."""

    eventTypes = (Rules,)

    def init(self, handle: Any) -> None:
        self._coordinator = handle.coordinator
        self._rules = Rules()

    def restoreShard(self, states: list[Rules]) -> None:
        # Several after a restart with another number of shards: the newest is right.
        self._rules = max(states, key=lambda rules: rules.version, default=Rules())

    def snapshotShard(self) -> Rules:
        return self._rules

    def handleEvent(self, event: Rules) -> None:
        self._rules = event

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        (dest,), late = key, 0
        limit = self._rules.limits.get(dest, self._rules.limit)
        for row in rows:
            delay = row.dep_delay or 0
            late += delay > 60
            if delay > limit:
                yield (dest, row.ts, delay, self._rules.version)
        if late:
            self._coordinator.send(Late(dest, late))


class HotAirports(mixedmode.OperatorCoordinator):
    """Gives the airports with the most late flights of late a limit of their own."""

    eventTypes = (Late,)

    def __init__(self) -> None:
        self.rules = Rules()
        self.late: Counter[str] = Counter()
        self._recent: deque[tuple[str, int]] = deque()

    def open(self, context: mixedmode.CoordinatorContext) -> None:
        self._context = context

    def checkpoint(self) -> bytes:
        return json.dumps({"recent": list(self._recent), "rules": vars(self.rules)}).encode()

    def restore(self, state: bytes) -> None:
        body = json.loads(state)
        self.rules, self.late, self._recent = Rules(**body["rules"]), Counter(), deque()
        for dest, flights in body["recent"]:
            self._count(dest, flights)

    def _count(self, dest: str, flights: int) -> None:
        self._recent.append((dest, flights))
        self.late[dest] += flights
        if len(self._recent) > WINDOW:
            dest, flights = self._recent.popleft()
            self.late[dest] -= flights

    def handleEventFromSubtask(self, shard: int, event: Late) -> None:
        self._count(event.dest, event.flights)
        hot = sorted(dest for dest, _ in self.late.most_common(HOT_AIRPORTS))
        if hot != sorted(self.rules.limits):
            self.rules = Rules(self.rules.version + 1, limits=dict.fromkeys(hot, 240))
            self._context.broadcast(self.rules)


def start(spark: SparkSession, data: Flights, folder: Path, coordinator: HotAirports) -> mixedmode.MixedQuery:
    """The query: January to November, then what lands in ``folder/landing``."""
    landing = folder / "landing"
    landing.mkdir(parents=True, exist_ok=True)
    return (
        mixedmode.read(
            history=spark.read.schema(SCHEMA).parquet(str(data.lake)),
            live=spark.readStream.schema(SCHEMA).parquet(str(landing)),
        )
        .groupBy("dest")
        .transformWithState(LateFlights(), OUTPUT, "append", "none", coordinator=coordinator)
        .uid("late-flights")
        .writeStream.queryName("hot-keys")
        .option("path", str(folder / "reported"))
        .option("checkpointLocation", str(folder / "checkpoints"))
        .start()
    )


def follow(query: mixedmode.MixedQuery, data: Flights, folder: Path, coordinator: HotAirports) -> None:
    """December lands file by file; tell when the rules change."""
    if not query.wait_for("live", timeout=600):
        raise query.exception() or TimeoutError(f"the history is not done after ten minutes: {query.status}")
    query.processAllAvailable()
    print(f"history: rules {coordinator.rules.version}, hot: {', '.join(sorted(coordinator.rules.limits))}")
    for part in sorted(data.december.glob("*.parquet")):
        before = coordinator.rules
        shutil.copy(part, folder / f".{part.name}")
        (folder / f".{part.name}").rename(folder / "landing" / part.name)
        query.processAllAvailable()
        if coordinator.rules != before:
            print(f"{part.stem}: rules {coordinator.rules.version}, hot: {', '.join(sorted(coordinator.rules.limits))}")
    print("events:", query.status["coordinator"])
    query.stop()


def main() -> None:
    """Run the example in a folder of its own, from the beginning."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=_ROOT / ".demo", help="where the demo's data is")
    base = parser.parse_args().folder
    folder = base / "hot-keys"
    shutil.rmtree(folder, ignore_errors=True)
    data, spark = prepare(base / "flights"), start_session(base)
    coordinator = HotAirports()
    follow(start(spark, data, folder, coordinator), data, folder, coordinator)
    reported = spark.read.parquet(str(folder / "reported"))
    reported.groupBy("rules").agg(F.count("*").alias("reported"), F.min("delay"), F.max("delay")).orderBy(
        "rules"
    ).show()
    spark.stop()


if __name__ == "__main__":
    main()
