"""A live source that begins "from now" begins where it did at the first start, whatever happens before a checkpoint."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

import driver_positions
import feeds
import mixedmode
import pytest
import support
from driver_jvm import KILLED, DriverJvm
from driver_positions import BETWEEN, DURING, HISTORY, JOBS, LATER, OLD
from failing import fail_at
from mixedmode import MixedQuery
from pyspark import cloudpickle
from pyspark.sql import Column
from pyspark.sql import functions as F
from support import World

DRIVER = Path(driver_positions.__file__)


class Lives:
    """All jobs of the driver, killed in their backlog, then run to their end."""

    def __init__(self, folder: Path, jvm: DriverJvm) -> None:
        self.folder = folder
        self.jvm = jvm
        for name in JOBS:
            (folder / name).mkdir()
            feeds.append(folder / name / "feed", *OLD)
        self._run("first")
        self.killed_s = time.time()
        for name in JOBS:
            feeds.append(folder / name / "feed", *BETWEEN)
            (folder / name / "go").touch()
        time.sleep(max(0.0, self.killed_s + 1.5 - time.time()))  # the rate source ticks on while nobody reads it
        self._run("second")

    def _run(self, life: str) -> None:
        assert self.jvm.run(DRIVER, self.folder, life).returncode == KILLED

    def rows(self, name: str) -> list[tuple]:
        return support.committed(self.folder / name / "out")


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory, driver_jvm: DriverJvm) -> Lives:
    return Lives(tmp_path_factory.mktemp("positions"), driver_jvm)


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name, (kind, _) in JOBS.items() if kind != "rate"])
def test_what_arrives_after_the_first_start_is_read_once(lives: Lives, name: str) -> None:
    """Rows that arrive while the history runs, or between a SIGKILL in it and the restart, come out exactly once."""
    later = () if name.endswith("batch") else LATER
    assert sorted(row[2] for row in lives.rows(name)) == sorted([*DURING, *BETWEEN, *later, *HISTORY])
    assert not (lives.folder / name / "checkpoints" / "mixedmode" / "first-position").exists()


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(900)
def test_the_rate_source_goes_on_from_its_first_start(lives: Lives) -> None:
    """Its rows begin before the SIGKILL, and none is missing or there twice.  (In streaming mode too, where sources of
    Python are asked in the same way: the test above.)"""
    all_rows = lives.rows("rate-mixed")
    rows = sorted((row[2], row[1]) for row in all_rows if row[0] == "rate")
    assert [value for value, _ in rows] == list(range(len(rows)))
    assert rows[0][1].replace(tzinfo=timezone.utc) < datetime.fromtimestamp(lives.killed_s, timezone.utc)
    assert sorted(row[2] for row in all_rows if row[0] != "rate") == HISTORY


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "mode"), [("stream", "mixed"), ("simple", "streaming")])
def test_first_rows_are_landed(world: World, kind: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a source that nobody can ask for its start again are read once, wherever the job fails on its way."""
    cloudpickle.register_pickle_by_value(feeds)
    cloudpickle.register_pickle_by_value(driver_positions)
    world.spark.dataSource.register(feeds.Feed)
    feeds.append(world.folder / "feed", *OLD)
    for flag in ("reached", "go"):
        (world.folder / flag).touch()
    positions = world.checkpoints / "mixedmode" / "first-position"

    def life(failing: str, *arriving: int) -> None:
        fail_at(monkeypatch, failing)
        options = {"path": str(world.folder / "feed"), "kind": kind, "from": "start"}
        described = (
            mixedmode.read(
                history=world.history([("history", value, value) for value in HISTORY]),
                live=world.spark.readStream.format("feed").options(**options).load(),
            )
            .groupBy("key")
            .transformWithState(driver_positions.Copy(str(world.folder)), feeds.SCHEMA, "append", "none")
        )
        query = world.start(described, {"pipeline.parallelism": 1, "execution.runtime-mode": mode})
        if failing:
            with pytest.raises(mixedmode.QueryError, match="failpoint"):
                query.awaitTermination(120)
        else:
            assert query.wait_for("live", 120)
            support.finish(query)
        feeds.append(world.folder / "feed", *arriving)

    life("first-rows-landed=raise", 4)
    life("first-position-saved=raise", 5)
    life("epoch-before-apply=raise:2" if mode == "streaming" else "epoch-before-apply=raise", 6)
    assert list(positions.glob("rows/*.parquet"))
    life("", 7)
    assert not positions.exists()
    life("")
    assert sorted(row[2] for row in world.output()) == [*OLD, 4, 5, 6, 7, *HISTORY]


@pytest.mark.slow
def test_landed_rows_have_what_another_version_of_the_job_looks_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on with the rows that were landed for one that failed in its backlog and looked at fewer columns."""
    cloudpickle.register_pickle_by_value(feeds)
    world.spark.dataSource.register(feeds.Feed)
    feeds.append(world.folder / "feed", *OLD)
    options = {"path": str(world.folder / "feed"), "kind": "stream", "from": "start"}

    found: dict[str, int] = {}

    def start(aggregate: Column) -> MixedQuery:
        rows = mixedmode.read(
            history=world.history([("history", value, value) for value in HISTORY]),
            live=world.spark.readStream.format("feed").options(**options).load(),
        )
        writer = rows.groupBy("key").agg(aggregate).writeStream.outputMode("update")
        writer = writer.foreachBatch(lambda batch, _: found.update(map(tuple, batch.collect())))
        query = writer.option("checkpointLocation", str(world.checkpoints)).option("pipeline.parallelism", 1).start()
        world.queries.append(query)
        return query

    fail_at(monkeypatch, "epoch-before-apply=raise")
    with pytest.raises(mixedmode.QueryError, match="failpoint"):
        start(F.count("*")).awaitTermination(120)
    fail_at(monkeypatch, "")
    support.live(start(F.sum("value")))
    assert found == {"history": sum(HISTORY), **{key: value for key, _, value in feeds.rows([*OLD])}}
