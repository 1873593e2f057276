"""Tables: every measurement with the ratios between its ways, and every target with what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from results import Measurement
from sizes import PRESETS
from targets import TARGETS, Target

#: The preset whose sizes the targets are promised for.
PROMISED_PRESET = "full"


def verdict(target: Target, measurement: Measurement) -> str:
    """``pass`` or ``miss``; with the preset in brackets where the sizes are not those of the promise."""
    word = "pass" if target.is_met(measurement.findings[target.id]) else "miss"
    return word if measurement.preset == PROMISED_PRESET else f"{word} ({measurement.preset} sizes)"


def ways_table(measurement: Measurement) -> list[list[str]]:
    """A header and a row per way, fastest first."""
    if not measurement.seconds:
        return []
    seconds, rows = measurement.seconds, measurement.rows
    baselines = [way for way in measurement.baselines if way in seconds]
    per_second = [] if rows is None else ["rows/s"]
    cpu = measurement.cpu_s
    by_cpu = ["CPU-s", *(f"x {way}, by CPU" for way in baselines)] if cpu else []
    table = [["way", "median s", *per_second, *(f"x {way}" for way in baselines), *by_cpu, "rounds"]]
    for way in sorted(seconds, key=lambda way: median(seconds[way])):
        middle = median(seconds[way])
        speed = [] if rows is None else [f"{rows / middle:,.0f}"]
        ratios = [f"{median(seconds[baseline]) / middle:.2f}" for baseline in baselines]
        if cpu:
            used = median(cpu[way])
            ratios += [f"{used:.3g}", *(f"{median(cpu[baseline]) / used:.2f}" for baseline in baselines)]
        table.append([way, f"{middle:.3g}", *speed, *ratios, str(len(seconds[way]))])
    return table


def targets_table(measurements: Iterable[Measurement], *, unmeasured: bool = True) -> list[list[str]]:
    """A header and a row per target; ``unmeasured``: also for those that nothing was measured for."""
    table = [["target", "limit", "measured", "verdict"]]
    found = {id: measurement for measurement in measurements for id in measurement.findings}
    for target in TARGETS:
        limit = f"{target.sense} {target.show(target.limit)}"
        measurement = found.get(target.id)
        if measurement is None:
            if unmeasured:
                table.append([target.what, limit, "-", "not measured"])
        else:
            shown = target.show(measurement.findings[target.id])
            table.append([target.what, limit, shown, verdict(target, measurement)])
    return table


def closing_lines(measurements: Sequence[Measurement]) -> list[str]:
    """What is printed at the end of a run."""
    lines: list[str] = []
    for measurement in measurements:
        lines += ["", measurement.title]
        lines += [f"  {line}" for line in aligned(ways_table(measurement))]
        lines += [f"  {note}" for note in measurement.notes]
        if not measurement.machine.get("idle", True):
            lines.append(f"  the machine was busy before it began: {measurement.machine['busy']:.0%} of its cores")
        if "load" in measurement.machine:
            lines.append(f"  load before it began: {measurement.machine['load']}")
    if any(measurement.findings for measurement in measurements):
        lines += ["", "Targets", *(f"  {line}" for line in aligned(targets_table(measurements)))]
    return lines


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width; all but the first to the right if they are numbers."""
    if not table:
        return []
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if place == 0 or not cell[:1].isdigit() else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def markdown(table: Sequence[Sequence[str]]) -> list[str]:
    """The same for a README."""
    if not table:
        return []
    header, *rows = table
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


assert PROMISED_PRESET in PRESETS
