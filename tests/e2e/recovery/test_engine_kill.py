"""A driver killed while its tasks scan a backlog by themselves goes on with either engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from driver_jvm import KILLED, DriverJvm
from mixedmode.runtime.support.failpoints import VARIABLE

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

DRIVER = Path(__file__).parents[1] / "driver_engine.py"
KEYS, ROWS, SHARDS = 40, 400, 4


@pytest.mark.slow
@pytest.mark.parametrize("job", ["aggregate", "deduplicate"])
def test_a_backlog_killed_with_one_engine_goes_on_with_either(tmp_path: Path, driver_jvm: DriverJvm, job: str) -> None:
    """Killed between the scan and the shards, and with some shards finished: the next driver removes the runs, takes
    over the shards that its engine has finished and no others (Spark's from Spark: test_reuse.py), and commits what an
    undisturbed one would; a task that dies after it has scanned, and one that dies after it has merged, run again.
    Which engine has finished a shard is known in the same way of either job, so the deduplication has two lives."""
    (tmp_path / "history").mkdir()
    for name, first in (("a", 0), ("b", ROWS // 2)):
        values = range(first, first + ROWS // 2)
        table = pa.table({"k": [value % KEYS for value in values], "v": list(values)})
        pq.write_table(table, tmp_path / "history" / f"{name}.parquet")
    ours = tmp_path / "checkpoints" / "mixedmode"

    def run(engine: str, *failpoints: str) -> int:
        return driver_jvm.run(DRIVER, tmp_path, engine, job, **{VARIABLE: ";".join(failpoints)}).returncode

    def finished() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (ours / "backlog").glob("*/*.report")}

    def lose_one(reports: dict[Path, int]) -> None:
        path = min(reports)
        path.unlink()
        del reports[path]

    assert run("arrow", "backlog-scanned=kill") == KILLED
    assert list(ours.rglob("*.run"))
    assert not finished()

    dies_once = f"task-before-report-sorted=kill-once:{tmp_path / 'merged'}"
    both_die_once = (f"scan-before-report=kill-once:{tmp_path / 'scanned'}", dies_once.replace("merged", "again"))
    if job == "aggregate":
        assert run("spark", dies_once, "epoch-before-apply=kill") == KILLED
        assert not list(ours.rglob("*.run"))
        by_spark = finished()
        assert len(by_spark) == SHARDS

        assert run("arrow", *both_die_once, "epoch-before-apply=kill") == KILLED
        by_arrow = finished()
        assert len(by_arrow) == SHARDS
        assert not by_spark.items() & by_arrow.items()
        lose_one(by_arrow)

        assert run("arrow", "epoch-before-apply=kill") == KILLED
        assert by_arrow.items() < finished().items()
        assert run("arrow") == 0
    else:
        assert run("arrow", *both_die_once) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"scanned", "again"}
    assert not list(ours.rglob("*.run"))
    rows = pq.read_table(tmp_path / "out").to_pylist()
    each = {key: [value for value in range(ROWS) if value % KEYS == key] for key in range(KEYS)}
    assert len(rows) == KEYS
    if job == "aggregate":
        found = {row["k"]: (row["n"], row["s"], row["m"]) for row in rows}
        assert found == {key: (len(values), sum(values), max(values)) for key, values in each.items()}
    else:
        assert {row["k"]: row["v"] for row in rows} == {key: values[0] for key, values in each.items()}
