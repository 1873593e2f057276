"""Where a run in Real-Time Mode can be disturbed, and how: each way at each point where it makes sense is a case."""

from __future__ import annotations

from dataclasses import dataclass

#: By what the internals' page calls them: the failpoints of the driver, and those of a shard's worker.
DRIVER_POINTS = {
    "begun": "realtime-query-started",
    "batch succeeded": "realtime-before-check",
    "checked": "realtime-before-commit",
    "checkpoint metadata": "checkpoint-after-metadata",
    "committed": "realtime-committed",
}
SHARD_POINTS = {
    "state opened": "realtime-task-opened",
    "rows flow": "realtime-task-portion",
    "end of rows": "realtime-task-end-of-rows",
    "log written": "realtime-task-before-report",
    "reported": "realtime-task-reported",
}
POINTS = {**DRIVER_POINTS, **SHARD_POINTS}

#: ``kill``: SIGKILL.  ``stop``: SIGSTOP, and SIGCONT some time later.  ``takeover``: SIGSTOP, a second driver takes the
#: location over and works, SIGCONT.  ``freeze``: SIGSTOP of a worker, its siblings are killed, SIGCONT.
_OF_DRIVER = {"driver": ("kill", "stop", "takeover"), "jvm": ("kill", "stop", "takeover")}
_OF_SHARD = {
    "driver": ("kill", "takeover"),
    "jvm": ("kill", "stop", "takeover"),
    "worker": ("kill", "stop", "takeover", "freeze"),
}


@dataclass(frozen=True)
class LiveDisturbance:
    """A process that is held at a point has something done to it, or to another one.

    Args:
        point: a name of :data:`POINTS`.
        victim: ``driver``, ``jvm`` or ``worker``.
        way: what is done to it.
        stop_s: how long it is stopped.
        after_s: how long the job is left alone before the next process at the point is held.
    """

    point: str
    victim: str
    way: str
    stop_s: float = 1.0
    after_s: float = 0.0

    def __str__(self) -> str:
        lasts = "" if self.way == "kill" else f" {self.stop_s:.1f} s"
        return f"{self.victim} {self.way}{lasts} at {self.point!r}"


#: Point, victim and way.
CASES = [
    *((point, victim, way) for point in DRIVER_POINTS for victim, ways in _OF_DRIVER.items() for way in ways),
    *((point, victim, way) for point in SHARD_POINTS for victim, ways in _OF_SHARD.items() for way in ways),
]


def table(found: list[LiveDisturbance]) -> str:
    """How many there were, by point and way, as a table of Markdown."""
    rows = sorted({(victim, way) for _, victim, way in CASES})
    lines = [f"| | {' | '.join(POINTS)} |", "|---|" + "---|" * len(POINTS)]
    for victim, way in rows:
        counts = [sum((one.point, one.victim, one.way) == (point, victim, way) for one in found) for point in POINTS]
        lines.append(f"| {victim}: {way} | {' | '.join(str(count or '') for count in counts)} |")
    return "\n".join(lines)
