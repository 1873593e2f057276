"""Rows that came too late: which they are, where they go, and that they go there exactly once."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import support
from failing import fail_at
from mixedmode import MixedQuery, OptionError, PlanError, QueryError
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from support import World, at

support.by_value(__name__)

#: What lands second: late, late without being dropped by everybody, in time.  The watermark is 1000 s by then.
SECOND = [("k", 500, 1), ("k", 993, 2), ("k", 998, 3), ("k", 1000, 4), ("q", 600, 5)]


def late_path(world: World) -> str:
    return str(world.folder / "late")


def run(world: World, keyed: Any, *batches: list[support.Event], **options: Any) -> MixedQuery:
    """A query that has taken the batches one by one; late rows go to a folder."""
    options = {"pipeline.late-data.path": late_path(world), "execution.backlog.final-watermark": "observed", **options}
    query = world.start(keyed, options)
    query.processAllAvailable()
    world.feed(query, *batches)
    return query


def values(query: MixedQuery, uid: str | None = None) -> list[int]:
    rows = query.lateRows if uid is None else query.lateRowsOf(uid)
    return sorted(row.value for row in rows.collect())


def dropped(query: MixedQuery) -> int:
    return sum(p.stateOperators[0]["numRowsDroppedByWatermark"] for p in query.recentProgress)


@pytest.mark.slow
def test_late_rows_of_a_processor_are_handed_out(world: World) -> None:
    """Rows before the watermark are written with all their columns and the watermark that they were behind."""
    world.land([("k", 1000, 0)])
    query = run(world, support.sessions(None, world.live()), SECOND)

    rows = sorted(query.lateRows.collect(), key=lambda row: row.value)

    assert [(r.key, r.ts, r.value) for r in rows] == [(k, at(s), v) for k, s, v in SECOND if v in (1, 2, 3, 5)]
    assert {row._watermark for row in rows} == {at(1000)}
    assert dropped(query) == 4
    assert query.lateRows.columns == ["key", "ts", "value", "_watermark"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "late"),
    [
        ("window(ts, '10 seconds', '5 seconds')", [1, 2, 5]),  # 998 is in [995, 1005), too
        ("window(ts, '10 seconds', '10 seconds', '4 seconds')", [1, 2, 5]),
        ("session_window(ts, '4 seconds')", [1, 2, 5]),
        ("ts", [1, 2, 3, 4, 5, 6]),
    ],
    ids=["sliding", "shifted", "session", "time itself"],
)
def test_late_rows_of_an_aggregate_are_those_whose_window_is_over(world: World, key: str, late: list[int]) -> None:
    """Exactly the rows that count as dropped are handed out: of sliding windows, those that no open window has.  (Of
    tumbling ones: the test of several stages.)"""
    world.land([("k", 1000, 0)])
    frame = world.read().withWatermark("ts", "0 seconds")
    batch = [*SECOND, ("k", None, 6)]  # a null in a window is in no window, and nothing to drop
    query = run(world, frame.groupBy("key", F.expr(key)).agg(F.count("*")), batch)

    assert values(query) == late
    assert dropped(query) == len(late)


@pytest.mark.slow
def test_a_row_in_time_keeps_its_session_in_time(world: World) -> None:
    """A row that alone would be late is none if rows of the same micro-batch join it to a session that is open."""
    world.land([("k", 1000, 0)])
    keyed = (
        world.read()
        .withWatermark("ts", "0 seconds")
        .groupBy("key", F.session_window("ts", "4 seconds"))
        .agg(F.count("*"))
    )
    query = run(world, keyed, [("k", 993, 1), ("k", 995, 2), ("k", 998, 3), ("q", 993, 4), ("k", 980, 5)])

    assert values(query) == [4, 5]
    assert dropped(query) == 2


def test_nothing_in_the_backlog_is_late(world: World) -> None:
    """However far back a row of the backlog lies, it is processed (X17), and the side output stays empty."""
    history = world.history([("k", 1000, 0), ("k", 1, 1)])
    query = run(world, support.sessions(history, world.live()))

    assert values(query) == []
    assert query.lateRows.columns == ["key", "ts", "value", "_watermark"]


@pytest.mark.slow
def test_late_rows_come_exactly_once_through_a_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late rows of a checkpoint that its run did not live to commit are committed by the next start, and once."""
    world.land([("k", 1000, 0)])
    keyed = support.sessions(None, world.live())
    first = run(world, keyed, **{"execution.checkpointing.interval": "1 ms"})
    fail_at(monkeypatch, "checkpoint-after-metadata=raise")
    world.land([("k", 1, 1)])
    with pytest.raises(QueryError, match="checkpoint-after-metadata"):
        first.processAllAvailable()
    assert values(first) == []
    fail_at(monkeypatch, "")

    with pytest.raises(QueryError, match=r"late rows that are not visible yet, and pipeline\.late-data\.path is unset"):
        run(world, keyed, **{"pipeline.late-data.path": None})
    second = run(world, keyed)
    assert values(second) == [1]
    second.stop()
    third = run(world, keyed, [("k", 2, 2)])
    assert values(third) == [1, 2]
    assert not list(Path(late_path(world)).glob("_mixedmode/*/*"))


@pytest.mark.slow
def test_late_rows_of_an_epoch_that_fails_are_not_handed_out_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch that failed after its late rows were staged is done again, and only what it stages then counts."""
    world.land([("k", 1000, 0)])
    keyed = support.sessions(None, world.live())
    first = run(world, keyed)
    fail_at(monkeypatch, "epoch-before-apply=raise")
    world.land([("k", 1, 1)])
    with pytest.raises(QueryError, match="epoch-before-apply"):
        first.processAllAvailable()
    fail_at(monkeypatch, "")
    assert len(list(Path(late_path(world)).glob("_mixedmode/*/*.parquet"))) == 1

    second = run(world, keyed)
    assert values(second) == [1]
    assert not list(Path(late_path(world)).glob("_mixedmode/*/*"))


@pytest.mark.slow
def test_a_path_is_needed_to_keep_late_rows(world: World) -> None:
    """Without the option late rows are dropped, counted, and lateRows says so."""
    world.land([("k", 1000, 0)])
    query = run(world, support.sessions(None, world.live()), SECOND, **{"pipeline.late-data.path": None})

    assert dropped(query) == 4
    with pytest.raises(QueryError, match=r"set pipeline\.late-data\.path"):
        _ = query.lateRows


def test_late_rows_need_a_folder_of_their_own(world: World) -> None:
    """Output and late rows in one folder are refused before anything runs."""
    with pytest.raises(OptionError, match=r"path and pipeline\.late-data\.path are the same folder"):
        world.start(support.sessions(None, world.live()), {"pipeline.late-data.path": str(world.out)})


def test_a_column_with_the_watermarks_name_is_refused(world: World) -> None:
    """An input column _watermark would be taken for ours."""
    live = world.live().withColumn("_watermark", F.lit(1))
    with pytest.raises(PlanError, match="column _watermark has the name"):
        world.start(support.sessions(None, live), {"pipeline.late-data.path": late_path(world)})


@pytest.mark.slow
def test_times_of_any_century_are_written(world: World) -> None:
    """A garbage timestamp of the year 1 is a late row as any other."""
    world.land([("k", 1000, 0)])
    first = (datetime(1, 1, 2) - at(0)).total_seconds()
    query = run(world, support.sessions(None, world.live()), [("k", first, 7)])

    assert [(row.ts, row.value) for row in query.lateRows.collect()] == [(datetime(1, 1, 2), 7)]


class Echo(StatefulProcessor):
    """Gives each row again, as many seconds earlier as its value says."""

    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            yield key[0], row.ts - timedelta(seconds=row.value), row.value


def of_three_stages(rows: Any) -> Any:
    """Two stages that read the same source, and what both give, in windows of ten seconds."""
    timed = rows.withWatermark("ts", "0 seconds")
    echo = timed.groupBy("key").transformWithState(
        Echo(), "key string, at timestamp, value long", "append", "eventTime", eventTimeColumnName="at"
    )
    unique = timed.withColumnRenamed("ts", "at").dropDuplicates(["key", "at", "value"]).uid("unique")
    both = echo.uid("echo").union(unique).withColumn("twice", F.col("value") * 2)
    return both.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("n")).uid("totals")


@pytest.mark.slow
def test_each_stage_hands_out_what_was_late_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In stage=<uid>, with the columns of the rows that it takes and the watermark they were behind there; exactly once
    through a failure after they were staged.  Rows in are rows used and rows late."""
    world.land([("k", 1000, 0)])
    job = of_three_stages(world.read())
    first = run(world, job)
    fail_at(monkeypatch, "epoch-before-apply=raise")
    world.land([("k", 500, 1), ("k", 998, 2), ("k", 1004, 7), ("k", 1005, 500), ("k", 1006, 1)])
    with pytest.raises(QueryError, match="epoch-before-apply"):
        first.processAllAvailable()
    fail_at(monkeypatch, "")
    assert len(list(Path(late_path(world)).glob("_mixedmode/*/*.parquet"))) == 3

    query = run(world, job, [("k", 2000, 0)])
    assert [values(query, uid) for uid in ("echo", "unique", "totals")] == [[1, 2], [1, 2], [7, 500]]
    late = query.lateRowsOf("totals")
    assert late.columns == ["key", "at", "value", "twice", "_watermark"]
    assert {tuple(row) for row in late.collect()} == {
        ("k", at(997), 7, 14, at(1000)),
        ("k", at(505), 500, 1000, at(1000)),
    }
    counted = [
        sum(progress.stateOperators[stage]["numRowsDroppedByWatermark"] for progress in query.recentProgress)
        for stage in range(3)
    ]
    assert counted == [2, 2, 2]
    assert [row[1] for row in world.output()] == [2 + 1 + 3]  # of 1000 twice, 1005 from echo, and three as they were
    folder = Path(late_path(world))
    assert sorted(path.name for path in folder.glob("[!_]*")) == ["stage=echo", "stage=totals", "stage=unique"]
    assert not list(folder.glob("_mixedmode/*/*"))
    with pytest.raises(QueryError, match=r"use lateRowsOf\('echo'\), or of 'unique' or 'totals'"):
        _ = query.lateRows
    with pytest.raises(QueryError, match="no stage 'total'; its stages are echo, unique, totals"):
        query.lateRowsOf("total")
    text = " ".join(first._job.explain(False).split())
    assert f"{late_path(world)}, in stage=<uid> those that are late for each stage" in text
    other = World(world.spark, world.folder / "other")
    alone = {"pipeline.late-data.path": late_path(world)}
    with pytest.raises(OptionError, match="holds is laid out by stage, and what this job adds is not laid out"):
        other.start(support.sessions(None, world.live()), alone)
