"""Two stages whose live epochs are one Spark job: they give what they give one after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import mixedmode
import pytest
import support
from epoch_failures import EpochFailures
from mixedmode.runtime.jobs.fused_stages import FusedStages
from mixedmode.runtime.tasks.report_accumulator import ReportAccumulator
from mixedmode.runtime.tasks.shard.shards_in_one import InOneTask
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support import World

EVENTS = support.stream_of(1200, seed=5)
FLUSH = support.flush_after(EVENTS)
PARTS = [EVENTS[at : at + 150] for at in range(0, len(EVENTS), 150)]


def firsts(history: DataFrame | None, live: DataFrame | None) -> Any:
    """The first row of each key and value, counted by the hour."""
    rows = mixedmode.read(history=history, live=live).withWatermark("ts", "0 seconds")
    found = rows.dropDuplicates(["key", "value"]).uid("firsts").where("value >= 3")
    hours = found.groupBy(F.window("ts", "1 hour")).agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
    return hours.uid("hours")


def expected() -> list[tuple[Any, ...]]:
    """What they give: (window, rows, total), sorted."""
    seen: set[Any] = set()
    hours: dict[int, list[int]] = {}
    for key, seconds, value in EVENTS:
        if (key, value) not in seen and value >= 3:
            counted = hours.setdefault(seconds // 3600, [0, 0])
            counted[0], counted[1] = counted[0] + 1, counted[1] + value
        seen.add((key, value))
    windows = {hour: [support.START + timedelta(hours=hour + more) for more in (0, 1)] for hour in hours}
    return sorted([({"start": windows[hour][0], "end": windows[hour][1]}, *hours[hour]) for hour in hours], key=repr)


class Jobs:
    """Sees which epochs are one Spark job, and can have a task's report told twice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.together: list[bool] = []
        #: Of each plan whether one task works on all shards.
        self.in_one: list[bool] = []
        self.doubles = False
        execute, of, planned = FusedStages.execute, ReportAccumulator.of, FusedStages._planned

        def executed(one: FusedStages, *arguments: Any) -> Any:
            done = execute(one, *arguments)
            self.together.append(done is not None)
            return done

        def reports_of(one: ReportAccumulator, sender: Any) -> list[bytes]:
            found = of(one, sender)
            return [*found, found[0]] if self.doubles else found

        def noted(one: FusedStages, shape: Any, first: Any, second: Any) -> Any:
            made = planned(one, shape, first, second)
            self.in_one.append(first.in_one and made is not None)
            return made

        monkeypatch.setattr(FusedStages, "_planned", noted)
        monkeypatch.setattr(FusedStages, "execute", executed)
        monkeypatch.setattr(ReportAccumulator, "of", reports_of)


@pytest.mark.slow
@pytest.mark.parametrize("in_one", [True, False])
def test_two_stages_in_one_job_give_what_they_give_by_themselves(
    world: World, monkeypatch: pytest.MonkeyPatch, in_one: bool
) -> None:
    """In one task, or in one for each shard; through projections and steps between them.

    An epoch that fails behind the job leaves no trace; where a task's rows may have gone on twice, the stages run one
    after the other, from that epoch on.
    """
    jobs, failures = Jobs(monkeypatch), EpochFailures(monkeypatch, None)
    if not in_one:
        monkeypatch.setattr(InOneTask, "is_possible", staticmethod(lambda operator, parallelism: False))
    options = {"execution.checkpointing.interval": "1 ms"}
    job = firsts(world.history(PARTS[0]), world.live(maxFilesPerTrigger="1"))
    query = support.live(world.start(job, options))
    world.land(*PARTS[1:4])
    query.processAllAvailable()
    assert jobs.together[-1:] == [True], jobs.together
    assert jobs.in_one == [in_one]
    assert query.lastProgress is not None
    failures.point = "epoch-before-apply"
    world.land(PARTS[4])
    with pytest.raises(mixedmode.QueryError, match="failed at epoch-before-apply"):
        query.awaitTermination(300)
    failures.point = None
    query = support.live(world.start(job, options))
    before = len(jobs.together)
    world.feed(query, PARTS[5])
    jobs.doubles = True
    world.feed(query, PARTS[6])
    jobs.doubles = False
    world.land(PARTS[7], FLUSH)
    support.finish(query)
    assert len(jobs.together) > before and jobs.together[-1] is False, jobs.together
    rows, last = expected(), max(row[0]["start"] for row in expected())
    assert [row for row in world.output() if row[0]["start"] <= last] == rows
