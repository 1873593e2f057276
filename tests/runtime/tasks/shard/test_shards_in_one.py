"""When one task works on all shards of an epoch; the rows of all are cut into those of each."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import MisplacedRowsError, MixedModeError
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.jobs import stage_jobs
from mixedmode.runtime.jobs.executor import EpochExecutor
from mixedmode.runtime.jobs.shard_placement import ShardPlacement
from mixedmode.runtime.jobs.shard_rows import ShardRows
from mixedmode.runtime.jobs.shuffle import HashExchange, ShardExchange
from mixedmode.runtime.jobs.stage_epoch import EpochRows, StageEpoch
from mixedmode.runtime.jobs.stage_jobs import StageJobs
from mixedmode.runtime.operators.contract import EpochSpec, ShardCounters
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.runtime.spec import Settings
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.runtime.tasks.shard.pass_context import PassContext
from mixedmode.runtime.tasks.shard.shard_task import ShardTask
from mixedmode.runtime.tasks.shard.shards_in_one import InOneTask, ShardSlices
from mixedmode.runtime.tasks.shard.task_sorter import SortPlan
from mixedmode.runtime.tasks.shard_states import ShardStates
from mixedmode.state.keys.keygroups import KeyGroupRange, shard_ranges
from mixedmode.state.store.packed_manifests import PackedManifests
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark.sql.types import StructType

#: A pass of which shard 0 is done.
ONE_DONE = PassContext(finished=((0, b""),))
RANGES = [KeyGroupRange(0, 3), KeyGroupRange(4, 4), KeyGroupRange(5, 9)]


def batches(groups: list[int], sizes: list[int]) -> list[pa.RecordBatch]:
    """Rows with these key groups, in batches of these sizes and one of what is left."""
    found, start = [], 0
    for stop in [*[sum(sizes[: place + 1]) for place in range(len(sizes))], len(groups)]:
        part = groups[start:stop]
        numbers = list(range(start, start + len(part)))
        found.append(
            pa.record_batch({KEY_GROUP_COLUMN: pa.array(part, pa.int32()), "n": pa.array(numbers, pa.int64())})
        )
        start += len(part)
    return found


@given(st.lists(st.integers(0, 9)).map(sorted), st.lists(st.integers(0, 5), max_size=4))
def test_each_shard_gets_its_rows_in_order(groups: list[int], sizes: list[int]) -> None:
    """However rows are cut into batches, each is in the slice of its shard, and nowhere else."""
    slices = ShardSlices(iter(batches(groups, sizes)))
    found = [[n for batch in slices.of(one) for n in batch.column("n").to_pylist()] for one in RANGES]
    slices.check_end()
    assert found == [[n for n, group in enumerate(groups) if group in one] for one in RANGES]


def test_rows_of_no_shard_are_not_lost() -> None:
    """Rows behind those of the last shard fail the task."""
    slices = ShardSlices(iter(batches([0, 9], [])))
    for one in RANGES[:2]:
        assert len(list(slices.of(one))) == (one.first == 0)
    with pytest.raises(MisplacedRowsError, match="key group 9"):
        slices.check_end()


def test_large_epochs_are_for_several_tasks() -> None:
    """One task is for few rows, and for an epoch of which nothing is known."""
    assert InOneTask.is_of_use(None) and InOneTask.is_of_use(1_000)
    assert InOneTask.is_of_use(20_000) and not InOneTask.is_of_use(20_001)


class Stage:
    """A stage's jobs, of which none is run: says in which ways an epoch's rows would be brought to their shards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, key_type: pa.DataType | None = None, **changes: Any) -> None:
        key_type = key_type or pa.int64()
        operator: Any = SimpleNamespace(
            uid="stage",
            aggregates_by_key=True,
            key_columns=("k",),
            key_group_places=None,
            projection=None,
            prepares_by=lambda epoch: (),
            key_schema=pa.schema([("k", key_type)]),
            order_in=lambda epoch: ("ts",),
        )
        self.jobs = StageJobs(**{**MADE_OF, "operator": operator, **changes})
        #: Of the rows; None: they are not a micro-batch's.
        self.partitions: int | None = 1
        #: Of each way, whether the task prepares its rows.
        self.prepared_in_task: list[bool] = []
        #: Whether the rows are known to be few.
        self.are_few = False
        monkeypatch.setattr(stage_jobs, "partitions_of", lambda frame: self.partitions)
        monkeypatch.setattr(stage_jobs, "is_small", lambda frame: self.are_few)
        monkeypatch.setattr(StageJobs, "_planned_once", lambda jobs, way, frame, task, make: (way, task))
        monkeypatch.setattr(StageJobs, "_job", lambda jobs, rows, task: (None, task))
        monkeypatch.setattr(ShardRows, "in_shards", lambda made, rows, task, by_hash: rows)

    def ways(self, shards: int = 2, style: Any = "random", placement: Any = None, **changes: Any) -> list[type]:
        """In order; the next one is for when Spark has not kept to the plan of one."""
        epoch = EpochSpec(1, style, MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
        manifests = PackedManifests([StateManifest(groups) for groups in shard_ranges(shards, 16)])
        local, numbers = fs.LocalFileSystem(), tuple(range(shards))
        states = ShardStates("job", manifests, local, "", None, 0)
        task = ShardTask("run", epoch, b"", states, numbers, OutputPlace(local, None), **changes)
        self.prepared_in_task.clear()
        frame = SimpleNamespace(columns=["k", "ts"])
        found = list(self.jobs.of_epoch(cast(Any, frame), task, placement, in_place=False))
        for way, planned in cast(Any, found):
            assert planned.in_one is isinstance(way, InOneTask)
            assert not planned.in_one or planned.shards == numbers
            self.prepared_in_task.append(planned.few_rows is not None)
            if planned.few_rows is not None:
                assert planned.in_one and planned.sort == SortPlan(SORT.key, ("ts",), SORT.memory_bytes, None)
        return [type(way) for way, _ in cast(Any, found)]


SPARK: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default=None: default))
MADE_OF: dict[str, Any] = {
    "spark": SPARK,
    "max_parallelism": 16,
    "feeds_a_stage": False,
    "output_transform": None,
}
#: The task sorts, unless an option has Spark do it.
SORT = SortPlan((KEY_GROUP_COLUMN, "k"), (), 1 << 24, None)
REST = [HashExchange, ShardExchange, type(None)]


def test_one_task_does_all_shards_where_that_is_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small epoch of one partition on few shards, also of the first one, whose rows nobody has counted."""
    stage = Stage(monkeypatch)
    assert stage.ways() == stage.ways(shards=4) == [InOneTask, *REST]
    for rows, is_small in ((20_000, True), (20_001, False), (0, True)):
        stage.jobs.note_rows(rows)
        assert stage.ways() == ([InOneTask] if is_small else []) + REST
    assert stage.ways(shards=8) == stage.ways(style="sorted")[:1] + REST[1:] == REST
    for partitions in (0, 2, None):
        stage.partitions = partitions
        assert stage.ways() == REST


def test_one_task_prepares_and_sorts_rows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the stream, with keys that it can hash; where there is a task for each shard, Spark has to."""
    stage = Stage(monkeypatch)
    stage.ways(sort=SORT)
    assert stage.prepared_in_task == [True, False, False, False]
    stage.ways()
    assert not any(stage.prepared_in_task), "by an option Spark sorts"
    stage.are_few = True
    assert stage.ways(style="sorted", sort=SORT)[0] is InOneTask
    assert not any(stage.prepared_in_task)
    stage = Stage(monkeypatch, pa.float64())
    assert stage.ways(sort=SORT) == [InOneTask, *REST]
    assert not any(stage.prepared_in_task)


def test_a_backlog_of_small_files_is_one_task_s_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows epochs of the stream have; not on many shards, nor where tasks have scanned the files."""
    stage = Stage(monkeypatch)
    stage.are_few = True
    stage.jobs.note_rows(20_001)
    several = [HashExchange, type(None)]
    assert stage.ways(style="sorted") == [InOneTask, *several]
    assert stage.ways(style="sorted", runs=cast(Any, "of files")) == several
    assert stage.ways(style="sorted", sorted_pass=ONE_DONE) == [type(None)]
    assert stage.ways(style="sorted", shards=8) == several
    stage.are_few = False
    assert stage.ways(style="sorted") == several


def test_shards_that_were_dealt_anew_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many there are is asked in each epoch."""
    stage = Stage(monkeypatch)
    assert [stage.ways(shards=shards)[0] for shards in (2, 8, 4)] == [InOneTask, HashExchange, InOneTask]


def test_shards_that_are_kept_on_several_executors_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a task where its local copy is, however few rows there are; so it is if those were misplaced."""
    stage = Stage(monkeypatch)
    placement = ShardPlacement.__new__(ShardPlacement)
    assert stage.ways(placement=placement) == [ShardPlacement, *REST]
    stage.jobs.note_unusable(RuntimeError("they are elsewhere"))
    assert stage.ways() == REST[1:]


def test_rows_that_are_handed_on_are_in_the_partitions_of_their_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows, a stage or operations of Spark's, counts on it; and finished shards have no task at all."""
    assert Stage(monkeypatch, feeds_a_stage=True).ways() == REST
    assert Stage(monkeypatch).ways(hands_on=StructType()) == REST
    assert InOneTask not in Stage(monkeypatch).ways(sorted_pass=ONE_DONE)


def test_a_processor_has_a_task_for_each_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows there are, its code may take long for each."""
    stage = Stage(monkeypatch)
    stage.jobs.operator.aggregates_by_key = False
    assert InOneTask not in stage.ways()


class Jobs:
    """Stands for a stage's jobs.

    Args:
        reports: what their tasks tell.
    """

    hands_on = None
    note_not_prepared = None

    def __init__(self, *reports: ShardReport) -> None:
        self.reports, self.noted = reports, list[int]()

    def of_epoch(self, *_: Any, **__: Any) -> Any:
        yield SimpleNamespace(collect=lambda: [[report.to_bytes()] for report in self.reports])

    def note_rows(self, rows: int) -> None:
        self.noted.append(rows)

    def note_unusable(self, error: BaseException) -> None:
        raise error


@pytest.mark.parametrize("style", ["random", "sorted"])
def test_the_rows_of_an_epoch_of_the_stream_are_noted(style: Any) -> None:
    """Those of all shards together say how large the next one may be; those of a backlog do not."""
    report = ShardReport(0, "", (), (), ShardCounters(rows_in=7), {})
    jobs = Jobs(report, replace(report, shard=1, counters=ShardCounters(rows_in=5)))
    executed(jobs, style)
    assert jobs.noted == ([12] if style == "random" else [])


def test_a_task_that_ran_for_two_partitions_fails_the_epoch() -> None:
    """All shards are the work of the one partition that there is; the reports of two would count twice."""
    reports = [ShardReport(shard, "", (), (), ShardCounters(), {}) for shard in (0, 1)]
    with pytest.raises(MixedModeError, match="one report from each of the shards"):
        executed(Jobs(*reports, *reports), "random")


def executed(jobs: Jobs, style: Any) -> None:
    """An epoch over some rows on two shards."""
    local, nothing = fs.LocalFileSystem(), cast(Any, None)
    place: Any = OutputPlace(local, None)
    operator = cast(Any, SimpleNamespace(uid="stage", is_stateless=False, has_first_pass=False))
    executor = EpochExecutor(nothing, operator, Settings(), "job", "run", 16, local, "", place, "")
    executor.jobs = cast(Any, jobs)
    epoch = EpochSpec(1, style, MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK)
    executor.is_first_pass = lambda *_: False  # type: ignore[method-assign]
    manifests = [StateManifest(groups) for groups in shard_ranges(2, 16)]
    executor.execute(StageEpoch(epoch, manifests), EpochRows(cast(Any, "some rows")))
