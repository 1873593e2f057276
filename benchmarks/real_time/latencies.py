"""Latencies of a run's rows, and what its events say of epochs' ends."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Seconds around an epoch's first row that count as the end of the epoch before.
AWAY_BEFORE, AWAY_BEHIND = 1.2, 0.3
SLOW_MS = 150
#: The first rows find cold code.
_LEFT_OUT_S = 3


@dataclass(frozen=True)
class Row:
    """A row: when it was produced, and how long it took."""

    at: float
    ms: float


class Run:
    """What a run has left in its folder.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.options: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        self.used: dict[str, Any] = json.loads((self.folder / "cpu.json").read_text())
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        self.events: list[dict[str, Any]] = sorted(map(json.loads, lines), key=lambda event: event["t"])
        self.begin: float = next(iter(self.of("load begins")))["t"]
        self.until: float = next(iter(self.of("load ended")))["t"]
        first = self.times("shard first row")
        #: First rows of all epochs but the first one.
        self.bounds = [min(at) for epoch, at in first.items() if epoch > min(first)]

    def of(self, *events: str) -> list[dict[str, Any]]:
        """All events with these names."""
        return [event for event in self.events if event["e"] in events]

    def times(self, event: str) -> dict[int, list[float]]:
        """When it happened, by epoch."""
        found: dict[int, list[float]] = {}
        for each in self.of(event):
            found.setdefault(each["epoch"], []).append(each["t"])
        return found

    def pauses(self) -> list[float]:
        """Seconds from the last row of an epoch to the first one of the next, of any shard."""
        last, first = self.times("shard last row"), self.times("shard first row")
        return [min(first[epoch + 1]) - max(last[epoch]) for epoch in sorted(last) if epoch + 1 in first]

    def produced_to_sent(self) -> list[Row]:
        """From the producer's stamp to the append to the target topic."""
        return [Row(us / 1e6, ms - us / 1e3) for us, ms in self._appended("out")]

    def produced_to_source(self) -> list[Row]:
        """From the producer's stamp to the append to the source topic: nothing of it is Spark's."""
        return [Row(us / 1e6, ms - us / 1e3) for us, ms in self._appended("in")]

    def source_to_sent(self) -> list[Row]:
        """From append to append."""
        came = dict(self._appended("in"))
        return [Row(us / 1e6, ms - came[us]) for us, ms in self._appended("out") if us in came]

    def in_python(self) -> tuple[list[float], list[float]]:
        """Milliseconds from the producer's stamp to Python, and in Python."""
        before, inside = [], []
        for path in (self.folder / "rows").glob("*"):
            data = array("q")
            data.frombytes(path.read_bytes())
            count = len(data) // 3
            columns = data[:count], data[count : 2 * count], data[2 * count :]
            for produced, arrived, sent in zip(*columns, strict=True):
                if self._counts(produced):
                    before.append((arrived - produced) / 1e3)
                    inside.append((sent - arrived) / 1e3)
        return sorted(before), sorted(inside)

    def away(self, rows: Sequence[Row]) -> list[Row]:
        """Those that were not produced around an epoch's end."""
        bounds = self.bounds
        return [row for row in rows if not any(b - AWAY_BEFORE <= row.at <= b + AWAY_BEHIND for b in bounds)]

    def _counts(self, produced_us: int) -> bool:
        return produced_us / 1e6 > self.begin + _LEFT_OUT_S

    def _appended(self, topic: str) -> list[tuple[int, int]]:
        """When rows of a topic were produced in us, and appended in ms, in the order of the first."""
        lines = (self.folder / f"{topic}.tsv").read_text().splitlines()
        found = sorted((int(us), int(ms)) for ms, us in (line.split("\t") for line in lines))
        return [row for row in found if self._counts(row[0])]


def quantiles(values: Sequence[float], *shares: float) -> str:
    """Some of them in words, such as ``p50 12.0 ms, p99 80.1``."""
    ordered = sorted(values)

    def of(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    named = [f"p{100 * share:g} {of(share):.1f}" for share in shares]
    return ", ".join([f"{named[0]} ms", *named[1:], f"max {ordered[-1] if ordered else float('nan'):.0f}"])
