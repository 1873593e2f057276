"""The figures of a run.

python benchmarks/real_time/summary.py FOLDER   (shows them once more)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import epoch_ends
import slow_rows
from latencies import AWAY_BEFORE, AWAY_BEHIND, SLOW_MS, Row, Run, quantiles

#: Work that waited in a pause is behind it for so long, at most.
_WORKED_OFF_S = 5
_CALM_MS = 50


def show(folder: str) -> None:
    """Print them."""
    run = Run(folder)
    rows = run.produced_to_sent()
    for lines in (_head(run, rows), _parts(run), slow_rows.lines(run, rows), _shards(run), epoch_ends.lines(run)):
        for line in lines:
            print(line, flush=True)


def _head(run: Run, rows: Sequence[Row]) -> Iterator[str]:
    told, used, count = run.options, run.used, len(rows)
    loads = f"load at begin {told['load'][0]:.1f}, at end {used['load'][0]:.1f}"
    job = f"{told['rate']:g} rows/s for {told['seconds']:g} s, epochs of {told['epoch_s']:g} s"
    yield f"run {run.folder.name}: {job}; {loads}; {used['producer'].strip()}"
    yield f"rows {count}; {quantiles([row.ms for row in rows], 0.5, 0.9, 0.99, 0.999)}"
    away = quantiles([row.ms for row in run.away(rows)], 0.5, 0.99)
    yield f"away from an epoch's end ({AWAY_BEFORE} s before to {AWAY_BEHIND} s behind its first row): {away}"
    slow = [row for row in rows if row.ms > SLOW_MS]
    cpu = 1000 * used["cpu_s"] / (told["rate"] * used["seconds"])
    cores = used["cpu_s"] / used["seconds"]
    yield f"rows above {SLOW_MS} ms: {100 * len(slow) / max(1, count):.2f} %"
    yield f"CPU-seconds per 1,000 rows: {cpu:.2f} ({cores:.2f} cores)"
    near = [row for row in slow if any(b - AWAY_BEFORE <= row.at <= b + _WORKED_OFF_S for b in run.bounds)]
    around = f"from {AWAY_BEFORE} s before to {_WORKED_OFF_S} s behind an epoch's first row"
    yield f"  of {len(slow)} slow rows {len(near)} come {around}: the pause, and what is worked off behind it"
    for bound in run.bounds:
        calm = next((row.at for row in rows if row.at > bound and row.ms < _CALM_MS), None)
        if calm is not None:
            behind = f"behind the pause that ended at {bound - run.begin:.2f} s"
            yield f"  {behind} the first row below {_CALM_MS} ms was produced {calm - bound:.2f} s later"
    by_thread = sorted(used["threads"].items(), key=lambda one: -one[1])[:16]
    words = ", ".join(f"{name} {seconds:.1f}" for name, seconds in by_thread if seconds > 0.05)
    yield f"  CPU-seconds while rows came: {words}"
    pauses = ", ".join(f"{1e3 * seconds:.0f} ms" for seconds in run.pauses())
    yield f"pauses (last row of an epoch to first row of the next, any shard): {pauses or 'none'}"


def _parts(run: Run) -> Iterator[str]:
    """Where rows spend their time."""
    own = run.source_to_sent()
    away = quantiles([row.ms for row in run.away(own)], 0.5, 0.99)
    yield (
        "WITHOUT the producer's way to the source topic (append time to append time): "
        f"{quantiles([row.ms for row in own], 0.5, 0.9, 0.99, 0.999)}; away {away}; "
        f"above {SLOW_MS} ms {100 * sum(row.ms > SLOW_MS for row in own) / max(1, len(own)):.2f} %"
    )
    before, inside = run.in_python()
    first = [row.ms for row in run.produced_to_source()]
    for name, values in (
        ("producer to the source topic, before Spark has anything to do with it", first),
        ("producer to Python", before),
        ("in Python", inside),
    ):
        yield f"  {name}: {quantiles(values, 0.5, 0.99, 0.999)}"


def _shards(run: Run) -> Iterator[str]:
    for event in run.of("shard end of rows"):
        slowest = f"{event['worst_row_ms']} ms at {event['worst_at'] - run.begin:.2f} s"
        rows = f"{event['rows']} rows, CPU {event['cpu_s']} s, slowest row in Python {slowest}"
        yield f"{event['who']} epoch {event['epoch']}: {rows}"


if __name__ == "__main__":
    show(sys.argv[1])
