"""The closing table: for every job the ways of running it, with rows per second and the ratio to stock streaming."""

from __future__ import annotations

from typing import Any

#: The way that all others are compared with.
BASELINE = "stock streaming"


def closing_table(benchmarks: list[Any]) -> list[str]:
    """Lines to print; benchmarks without our ``extra_info`` (or that failed) are left out.

    Args:
        benchmarks: pytest-benchmark's results, grouped by job.
    """
    by_job: dict[str, list[Any]] = {}
    for benchmark in benchmarks:
        if benchmark.has_error or "way" not in benchmark.extra_info:
            continue
        by_job.setdefault(benchmark.group, []).append(benchmark)
    lines: list[str] = []
    for job, ways in by_job.items():
        baseline = next((way["median"] for way in ways if way.extra_info["way"] == BASELINE), None)
        lines += ["", job, f"  {'way':<22} {'median':>9} {'rows/s':>12} {'x stock':>9} {'rounds':>7}"]
        for way in sorted(ways, key=lambda way: way["median"]):
            median_s = way["median"]
            ratio = f"{baseline / median_s:.1f}" if baseline else "-"
            lines.append(
                f"  {way.extra_info['way']:<22} {median_s:>7.2f} s {way.extra_info['rows'] / median_s:>12,.0f}"
                f" {ratio:>9} {way['rounds']:>7}"
            )
    return [*lines, ""] if lines else []
