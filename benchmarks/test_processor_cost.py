"""What a processor costs its worker for each row, without Spark, and for what."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest
from processor_cost import Idle, Recent, Totals, TotalsInBlocks, cpu_us_per_row, parts_of_blocks, rows_of_a_shard

_PROCESSORS = (
    ("idle", Idle),
    ("trivial", Totals),
    ("trivial in blocks", TotalsInBlocks),
    ("as in life", Recent),
)


@pytest.mark.parametrize("rows_per_key", [10, 2])
def test_processor_cost(benchmark: Any, bench: Any, tmp_path: Path, rows_per_key: int) -> None:
    """A processor that does nothing, a trivial one (also on blocks of keys), and one as in life, on scattered keys."""
    rows, rounds = bench.sizes.cost_rows, bench.sizes.rounds
    title = f"Processor, CPU of its worker: {rows:,} rows, {rows_per_key} a key"
    begun = bench.begin(f"processor-cost-{rows_per_key}", title, rows=rows, rows_per_key=rows_per_key, rounds=rounds)
    batches = rows_of_a_shard(rows, rows_per_key)
    measured: dict[str, list[float]] = {}

    def one_round() -> None:
        for name, processor in _PROCESSORS:
            for part, files in (("", False), (", state in files", True)):
                cost = cpu_us_per_row(processor(), batches, tmp_path / "state", files=files)
                measured.setdefault(name + part, []).append(cost)

    one_round()
    measured.clear()
    benchmark.pedantic(one_round, rounds=rounds)
    cost = {name: median(rounds) for name, rounds in measured.items()}
    notes = [f"cutting keys and making rows: {cost['idle']:.2f} µs a row"]
    for name in ("trivial", "trivial in blocks", "as in life"):
        whole, in_memory = cost[f"{name}, state in files"], cost[name]
        rows_made = 0.0 if name.endswith("in blocks") else cost["idle"]
        notes.append(
            f"{name}: {whole:.2f} µs a row, of it {in_memory - rows_made:.2f} user code, state and output, "
            f"{whole - in_memory:.2f} files of the state"
        )
    budgets = [parts_of_blocks(batches, tmp_path / "state") for _ in range(rounds)]
    parts = {part: median(budget[part] for budget in budgets) for part in budgets[0]}
    told = ", ".join(f"{part} {us * 1000:.0f}" for part, us in parts.items())
    notes.append(f"trivial in blocks, ns a row by part ({rows // rows_per_key:,} keys, one file): {told}")
    findings = {
        f"cost-trivial-{rows_per_key}": cost["trivial, state in files"],
        f"cost-life-{rows_per_key}": cost["as in life, state in files"],
    }
    bench.record(begun, findings=findings, notes=tuple(notes))
