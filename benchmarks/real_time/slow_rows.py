"""When rows were slow, and what went on meanwhile: collections of the JVM and of Python, threads that waited."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from latencies import SLOW_MS, Row, Run

_LONG_PAUSE_MS = 20
_KINDS = ("jvm", "worker", "broker", "producer")


@dataclass
class _Stretch:
    """Slow rows that were produced soon behind each other."""

    begin: float
    end: float
    rows: int
    worst_ms: float


@dataclass(frozen=True)
class _Pause:
    """The JVM stood still."""

    at: float
    name: str
    ms: float


def lines(run: Run, rows: Sequence[Row]) -> Iterator[str]:
    """All of it in words."""
    begin, pauses = run.begin, list(_pauses(run.folder))
    waits = [(event["t"], sum(event.get(kind, 0) for kind in _KINDS)) for event in run.of("waiting")]
    yield f"\nslow stretches (rows above {SLOW_MS} ms, by when they were produced; {run.until - begin:.0f} s of load)"
    yield _waiting(run, rows, waits)
    for stretch in _stretches(rows):
        a, b = stretch.begin, stretch.end
        near = [
            f"{e['e']} {e.get('ms', '')}".rstrip()
            for e in run.of("python gc", "shard piece")
            if a - 0.3 <= e["t"] <= b + 0.3
        ]
        near += [f"jvm {p.name} {p.ms:.0f} ms" for p in pauses if a - 0.3 <= p.at <= b + 0.3 and p.ms > 10]
        waited = max((ms for at, ms in waits if at - 0.5 <= b and a <= at), default=0)
        end = " (epoch end)" if any(bound - 3 <= b and a <= bound + 1 for bound in run.bounds) else ""
        facts = f"{stretch.rows} rows, worst {stretch.worst_ms:.0f} ms, threads waited {waited:.0f} ms{end}"
        yield f"  {a - begin:8.2f} to {b - begin:8.2f} s: {facts} {', '.join(near[:6])}".rstrip()
    long = [pause for pause in pauses if pause.ms > _LONG_PAUSE_MS and pause.at > begin]
    words = ", ".join(f"{pause.at - begin:.2f} s {pause.name} {pause.ms:.0f} ms" for pause in long[:20])
    yield f"\nJVM pauses above {_LONG_PAUSE_MS} ms: {words or 'none'}"
    collections = [event for event in run.of("python gc") if event["t"] > begin]
    yield f"Python collections above 5 ms: {len(collections)}"
    for event in collections[:12]:
        yield f"  {event['t'] - begin:.2f} s {event['who']} {event['ms']} ms"


def _waiting(run: Run, rows: Sequence[Row], waits: Sequence[tuple[float, float]]) -> str:
    slow = [row.at for row in rows if row.ms > SLOW_MS]
    there = [ms for at, ms in waits if any(at - 0.5 <= each <= at for each in slow)]
    elsewhere = [ms for at, ms in waits if at < run.until and not any(at - 0.5 <= each <= at for each in slow)]
    means = [sum(values) / max(1, len(values)) for values in (there, elsewhere)]
    return (
        "waiting for a processor, sum over the threads that rows pass through, per half second: "
        f"{means[0]:.0f} ms where rows are slow ({len(there)}), {means[1]:.0f} ms elsewhere ({len(elsewhere)})"
    )


def _stretches(rows: Sequence[Row]) -> list[_Stretch]:
    found: list[_Stretch] = []
    for row in rows:
        if row.ms <= SLOW_MS:
            continue
        if found and row.at - found[-1].end < 0.25:
            last = found[-1]
            last.end, last.rows, last.worst_ms = row.at, last.rows + 1, max(last.worst_ms, row.ms)
        else:
            found.append(_Stretch(row.at, row.at, 1, row.ms))
    return found


def _pauses(folder: Path) -> Iterator[_Pause]:
    """From the JVM's log."""
    for line in (folder / "gc.log").read_text(errors="replace").splitlines():
        stamp = re.match(r"\[(\S+?)\]", line)
        if not stamp:
            continue
        if of := re.search(r"(Pause .*?) (?:\d+M->\d+M\(\d+M\) )?([\d.]+)ms$", line):
            name, ms = of[1], float(of[2])
        elif of := re.search(r'Safepoint "(\w+)".*Total:\s+(\d+) ns', line):
            name, ms = f"safepoint {of[1]}", int(of[2]) / 1e6
        else:
            continue
        at = datetime.strptime(stamp[1], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
        yield _Pause(at - ms / 1e3, name, ms)
