"""Locations on a filesystem of another name: pyarrow reaches it through fsspec, Spark through Hadoop's viewfs.

Both lead to a folder of this machine, so no server is needed; but nothing of either knows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
import shared_folders
import support
from mixedmode.runtime.spark_io.place_probe import probe_places
from shared_folders import Apart, Shared
from support import World

EVENTS = support.stream_of(120, seed=5)


@pytest.fixture
def shared(world: World) -> Iterator[str]:
    """The world's folder under the name of the other filesystem."""
    context: Any = world.spark.sparkContext
    context.addPyFile(shared_folders.__file__)
    conf = context._jsc.hadoopConfiguration()
    settings = {f"fs.viewfs.mounttable.cluster.link.{world.folder}": f"file://{world.folder}"}
    for scheme, implementation in (("shared", Shared), ("apart", Apart), ("unknown", Shared)):
        fsspec.register_implementation(scheme, implementation, clobber=True)
        if scheme != "unknown":
            settings[f"fs.{scheme}.impl"] = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
            settings[f"fs.{scheme}.impl.disable.cache"] = "true"
    for name, value in settings.items():
        conf.set(name, value)
    yield f"shared://cluster{world.folder}"
    for name in settings:
        conf.unset(name)


@pytest.mark.slow
def test_everything_of_a_job_may_lie_there(world: World, shared: str) -> None:
    """Spark's log, state, staged output and late rows: rows that Spark reads back arrive in a user's function."""
    given: list[tuple[Any, ...]] = []

    def collect(frame: Any, number: int) -> None:
        given.extend(tuple(row) for row in frame.collect())

    world.land(EVENTS[80:], support.flush_after(EVENTS))
    job = support.sessions(world.history(EVENTS[:80]), world.live())
    query = (
        job.writeStream.foreachBatch(collect)
        .option("checkpointLocation", f"{shared}/checkpoints")
        .option("execution.backlog.final-watermark", "observed")
        .option("pipeline.late-data.path", f"{shared}/late")
        .option("pipeline.parallelism", 2)
        .start()
    )
    world.queries.append(query)
    assert query.wait_for("live", 120)
    query.processAllAvailable()
    world.feed(query, [("late", 0, 1)])
    assert [(row.key, row.value) for row in query.lateRows.collect()] == [("late", 1)]
    query.stop()
    assert support.without_flush(sorted(given, key=repr)) == support.sessions_of(EVENTS)
    assert (world.checkpoints / "spark" / "offsets" / "0").exists()
    assert sorted(path.name for path in world.folder.glob("*:*")) == []


def test_start_tries_them(world: World, shared: str) -> None:
    """What Spark does not know or finds elsewhere, or a worker does not share with the driver, is refused, not used."""
    place = f"cluster{world.folder}/new/deep"
    probe_places(world.spark, {"path": f"shared://{place}"})

    def refused(location: str) -> str:
        with pytest.raises(ValueError, match="path = ") as caught:
            probe_places(world.spark, {"path": location})
        return str(caught.value)

    assert "cannot be reached by Spark" in (said := refused(f"unknown://{place}")) and "unknown" in said
    assert "does not see" in refused(f"apart://{place}")
    elsewhere = world.folder / "elsewhere"
    elsewhere.mkdir()
    context: Any = world.spark.sparkContext
    mount = f"fs.viewfs.mounttable.cluster.link.{world.folder}"
    context._jsc.hadoopConfiguration().set(mount, f"file://{elsewhere}")
    assert "another place for Spark" in refused(f"shared://{place}")
    assert not (world.folder / "new").exists()

    error = support.refusal(lambda: world.start(support.sessions(None, world.live()), {"path": "dbfs:/out"}))
    assert "path = 'dbfs:/out'" in str(error) and "/dbfs/" in str(error)
