"""A driver killed in the backlog leaves finished shards; a restart takes them over if it is the same backlog."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from driver_jvm import KILLED, DriverJvm
from mixedmode.runtime.support.failpoints import VARIABLE

pytestmark = [pytest.mark.kill, pytest.mark.timeout(1800)]  # many processes, one after the other

DRIVER = Path(__file__).parents[1] / "driver_reuse.py"
KEYS, ROWS = 40, 400


def write_history(folder: Path, name: str, rows: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": [i % KEYS for i in range(rows)], "v": list(range(rows))}), folder / name)


def run(jvm: DriverJvm, folder: Path, number: int, failpoints: str = "") -> int:
    return jvm.run(DRIVER, folder, TEST_RUN=str(number), **{VARIABLE: failpoints}).returncode


def rows_by_run(folder: Path) -> Counter[int]:
    """How many input rows each run accounts for in the committed output; every key must be there once."""
    rows = pq.read_table(folder / "out").to_pylist()
    assert sorted(row["k"] for row in rows) == list(range(KEYS))
    counted: Counter[int] = Counter()
    for row in rows:
        counted[row["run"]] += row["n"]
    return counted


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, driver_jvm: DriverJvm) -> Path:
    """A job that was killed with three of its four shards finished."""
    folder = tmp_path_factory.mktemp("reuse") / "job"
    folder.mkdir()
    write_history(folder / "history", "a.parquet", ROWS)
    assert run(driver_jvm, folder, 1, "epoch-before-apply=kill") == KILLED
    reports = sorted((folder / "checkpoints" / "mixedmode" / "backlog").glob("*/*.report"))
    assert len(reports) == 4
    reports[2].unlink()
    return folder


@pytest.mark.slow
def test_finished_shards_are_taken_over(killed: Path, driver_jvm: DriverJvm, tmp_path: Path) -> None:
    """The same job over the same files computes only the shard that was missing."""
    shutil.copytree(killed, tmp_path / "as-killed")
    assert run(driver_jvm, killed, 2) == 0
    found = rows_by_run(killed)
    shutil.rmtree(killed)
    shutil.copytree(tmp_path / "as-killed", killed)  # in the same place: paths are part of "the same backlog"

    assert sum(found.values()) == ROWS
    assert found[1] > 0
    assert found[2] > 0


@pytest.mark.slow
def test_another_backlog_takes_over_nothing(killed: Path, driver_jvm: DriverJvm) -> None:
    """After the history has changed, every shard is computed again: two backlogs never mix."""
    write_history(killed / "history", "b.parquet", ROWS)
    assert run(driver_jvm, killed, 3) == 0
    assert rows_by_run(killed) == {3: 2 * ROWS}
