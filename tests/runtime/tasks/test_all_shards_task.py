"""One task works on all shards of an epoch: what it leaves and tells is what a task for each of them would."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failing import fail_at
from mixedmode.errors import MisplacedRowsError
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.operators.columnar.few_rows import FewRows
from mixedmode.runtime.operators.contract import EpochSpec
from mixedmode.runtime.operators.dedup.definition import Retention
from mixedmode.runtime.operators.dedup.few_rows import FewDedupRows
from mixedmode.runtime.operators.dedup.operator import DedupOperator
from mixedmode.runtime.operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK
from mixedmode.runtime.scan.parquet_scan import NotTakenError
from mixedmode.runtime.support import failpoints
from mixedmode.runtime.tasks import shard_states
from mixedmode.runtime.tasks.report import PreparationRefusal, ShardReport
from mixedmode.runtime.tasks.shard import shard_task, task_meter, task_sorter
from mixedmode.runtime.tasks.shard.pass_context import PassContext
from mixedmode.runtime.tasks.shard.shard_task import ShardTask
from mixedmode.runtime.tasks.shard.task_sorter import SortPlan
from mixedmode.runtime.tasks.shard_states import ShardStates
from mixedmode.state.keys.keygroups import shard_ranges
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.packed_manifests import PackedManifests
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from pyspark import TaskContext, cloudpickle
from pyspark.sql.types import LongType, StructField, StructType

SHARDS, MAX_PARALLELISM = 4, 16
MADE_OF: dict[str, Any] = {
    "uid": "unique",
    "keys": ("k",),
    "payload": ("v",),
    "schema": StructType([StructField("k", LongType()), StructField("v", LongType())]),
    "retention": Retention("for-ever"),
    "event_time": None,
    "lateness": None,
}
OPERATOR = DedupOperator(**MADE_OF)
Row = tuple[int, int]


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as Spark prepares them, one of each key."""
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    return pa.record_batch(
        {
            KEY_GROUP_COLUMN: pa.array([key % MAX_PARALLELISM for key in keys], pa.int32()),
            "__k0": pa.array(keys, pa.int64()),
            "__rows": pa.array([1] * len(rows), pa.int64()),
            "__b0": pa.array(values, pa.int64()),
        }
    )


class Stage:
    """A deduplication whose epochs run one after the other; ``commit`` takes over what an epoch has reported."""

    def __init__(self, folder: Path, cache: LocalStateCache, context: SimpleNamespace) -> None:
        self.folder, self.cache, self.context = folder, cache, context
        (folder / "out").mkdir(parents=True)
        self.manifests = [StateManifest(groups) for groups in shard_ranges(SHARDS, MAX_PARALLELISM)]
        self.epoch = 0

    def task(self, **changes: Any) -> ShardTask:
        """That of an epoch of the stream."""
        local, sort = fs.LocalFileSystem(), SortPlan((KEY_GROUP_COLUMN, "__k0"), (), 1 << 20, None)
        return ShardTask(
            "run",
            EpochSpec(self.epoch, "random", MIN_WATERMARK, MIN_WATERMARK, MIN_WATERMARK, 0, MIN_WATERMARK),
            cloudpickle.dumps(OPERATOR),
            ShardStates(
                "job",
                PackedManifests(self.manifests),
                local,
                str(self.folder / "pool"),
                str(self.folder / "local"),
                1 << 20,
            ),
            tuple(range(SHARDS)),
            OutputPlace(local, str(self.folder / "out")),
            **{"sort": sort, **changes},
        )

    def attempts(self, batches: Iterator[pa.RecordBatch], **changes: Any) -> Iterator[ShardReport]:
        """What an attempt to do all shards in one task tells, as it comes."""
        self.context.attempt += 1
        for told in self.task(in_one=True, **changes)(batches):
            yield ShardReport.from_bytes(told.column(0)[0].as_py())

    def each(self, rows: Sequence[Row]) -> list[ShardReport]:
        """What a task for each shard tells."""
        reports: list[ShardReport] = []
        for shard, manifest in enumerate(self.manifests):
            self.context.attempt, self.context.partition = self.context.attempt + 1, shard
            mine = [row for row in rows if row[0] % MAX_PARALLELISM in manifest.key_groups]
            [told] = self.task()(iter([batch(mine)]))
            reports.append(ShardReport.from_bytes(told.column(0)[0].as_py()))
        self.context.partition = 0
        return reports

    def commit(self, reports: Sequence[ShardReport]) -> list[Row]:
        """Take over an epoch; returns the rows that it has put out."""
        rows: list[Row] = []
        for report in reports:
            self.manifests[report.shard] = self.manifests[report.shard].append(report.files)
            for file in report.output:
                table = pq.read_table(self.folder / "out" / file.name)
                rows += zip(table.column("k").to_pylist(), table.column("v").to_pylist(), strict=True)
        self.epoch += 1
        return rows


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """That of the Spark task that runs."""
    found = SimpleNamespace(partition=0, attempt=0)
    found.partitionId, found.taskAttemptId = lambda: found.partition, lambda: found.attempt
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: found))
    return found


@pytest.fixture
def stage(tmp_path: Path, context: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    cache = LocalStateCache()
    for module in (shard_task, shard_states):
        monkeypatch.setattr(module, "process_cache", lambda: cache)
    yield Stage(tmp_path / "stage", cache, context)
    cache.close()


def told(report: ShardReport) -> tuple[Any, ...]:
    """What is the same of any attempt at a shard."""
    files = [(file.entries, file.tombstones, file.first_key, file.last_key) for file in report.files]
    return report.shard, files, [file.rows for file in report.output], report.counters


def test_it_leaves_and_tells_what_a_task_for_each_shard_does(tmp_path: Path, stage: Stage) -> None:
    """In any mixture of both: each key goes out once, and the reports differ in names and times alone."""
    chance, out, expected = random.Random(5), [], {}
    twin = Stage(tmp_path / "twin", stage.cache, stage.context)
    for epoch in range(12):
        keys = chance.sample(range(60), chance.choice([0, 1, 30]))
        rows = [(key, 100 * epoch + key) for key in keys]
        parts = [batch(rows[: len(rows) // 2]), batch(rows[len(rows) // 2 :])]
        reports = list(stage.attempts(iter(parts))) if epoch % 3 else stage.each(rows)
        others = twin.each(rows)
        assert list(map(told, reports)) == list(map(told, others))
        out += stage.commit(reports)
        twin.commit(others)
        for key, value in rows:
            expected.setdefault(key, value)
    assert sorted(out) == sorted(expected.items())


def test_rows_that_it_prepares_itself_are_those_that_spark_prepares(tmp_path: Path, stage: Stage) -> None:
    """The first row of each key, however rows were cut into batches; also of more rows than fit into its memory."""
    chance = random.Random(6)
    few = FewDedupRows(
        (("__k0", pa.int64()),),
        MAX_PARALLELISM,
        names=("v", "k"),
        columns=(("__k0", 1), ("__b0", 0)),
        time=None,
        late_time=None,
        late_ms=0,
        has_time=False,
    )
    first: dict[int, int] = {}
    out: list[Row] = []
    for epoch, (count, distinct) in enumerate([(50, 20), (1, 9), (0, 1), (40_000, 30_000)]):
        rows = [(chance.randrange(distinct), 100_000 * epoch + place) for place in range(count)]
        for key, value in rows:
            first.setdefault(key, value)
        table = pa.table(
            {"v": pa.array([v for _, v in rows], pa.int64()), "k": pa.array([k for k, _ in rows], pa.int64())}
        )
        size = max(1, count // 3)
        reports = list(stage.attempts(iter(table.to_batches(max_chunksize=size)), few_rows=few))
        assert sum(report.counters.rows_in for report in reports) == count
        assert (max(report.spilled_bytes for report in reports) > 0) == (count > 1000)
        out += stage.commit(reports)
    assert sorted(out) == sorted(first.items())


class _LeftToSpark(FewRows):
    """Rows that the task cannot prepare."""

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            raise NotTakenError("a sum may overflow")
        return batches


def test_a_task_that_leaves_its_rows_to_spark_does_nothing_else(stage: Stage) -> None:
    """It says why in place of its reports, writes no file, and the epoch can be done in another way."""
    stage.commit(list(stage.attempts(iter([batch([(1, 1)])]))))
    before = sorted((stage.folder / "pool").iterdir())
    rows = batch([(1, 2), (2, 2)])
    told = list(stage.task(in_one=True, few_rows=_LeftToSpark((), MAX_PARALLELISM))(iter([rows])))
    refusal = PreparationRefusal.of_rows([[one.column(0)[0].as_py()] for one in told])
    assert refusal == PreparationRefusal("a sum may overflow", lasts=True)
    assert sorted((stage.folder / "pool").iterdir()) == before
    reports = list(stage.attempts(iter([rows])))
    assert PreparationRefusal.of_rows([[report.to_bytes()] for report in reports[:1]]) is None
    assert stage.commit(reports) == [(2, 2)]


@pytest.mark.parametrize(
    ("point", "reported"), [("task-between-shards=raise:2", []), ("task-before-report-random=raise:3", [0, 1])]
)
def test_another_attempt_knows_nothing_of_a_failed_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, point: str, reported: list[int]
) -> None:
    """Shards that it had finished are done again, under other names, and what it has left counts for nothing."""
    stage.commit(list(stage.attempts(iter([batch([(key, 0) for key in range(0, 32, 2)])]))))
    rows = [(key, 1) for key in range(32)]
    fail_at(monkeypatch, point)
    finished: list[ShardReport] = []
    with pytest.raises(failpoints.InjectedFailure):
        finished.extend(stage.attempts(iter([batch(rows)])))
    assert [report.shard for report in finished] == reported
    left = {path.name for folder in ("pool", "out") for path in (stage.folder / folder).iterdir()}
    assert left
    reports = list(stage.attempts(iter([batch(rows)])))
    assert not left & {file.name for report in reports for file in (*report.files, *report.output)}
    assert sorted(stage.commit(reports)) == [(key, 1) for key in range(1, 32, 2)]
    assert stage.commit(list(stage.attempts(iter([batch(rows)])))) == []


def test_it_begins_no_shard_in_a_pause(stage: Stage) -> None:
    """Without reports the driver knows that all of them are to be done afterwards; nothing is left by it."""
    rows = [(key, 0) for key in range(32)]
    pause: Any = SimpleNamespace(is_there=True)
    sorted_pass = PassContext(pause=pause)
    assert list(stage.attempts(iter([batch(rows)]), sorted_pass=sorted_pass)) == []
    assert not (stage.folder / "pool").exists()
    pause.is_there = False
    assert len(stage.commit(list(stage.attempts(iter([batch(rows)]), sorted_pass=sorted_pass)))) == 32


def test_rows_out_of_order_fail_it(stage: Stage) -> None:
    """Where Spark sorts, rows that are not in the order of the key groups are in no shard, or in the wrong one."""
    with pytest.raises(MisplacedRowsError):
        list(stage.attempts(iter([batch([(9, 0), (1, 0)])]), sort=None))


def test_the_first_report_has_the_time_that_the_rows_took(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read and sorted once, and what a shard's operator takes is its own."""
    clock = SimpleNamespace(now=0.0, time=lambda: 7 + clock.now)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(task_meter, "time", clock)

    def later(seconds: float) -> None:
        clock.now += seconds

    def slow(*batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for one in batches:
            later(1)
            yield one

    class Slow(task_sorter.ExternalSorter):
        def add(self, batch: pa.RecordBatch) -> None:
            later(10)
            super().add(batch)

    class Slower(DedupOperator):
        def run(self, context: Any, rows: Iterator[pa.RecordBatch]) -> None:
            super().run(context, rows)
            later(100 * (context.shard + 1))

    monkeypatch.setattr(task_sorter, "ExternalSorter", Slow)
    monkeypatch.setattr(shard_task, "operator_of", lambda _: Slower(**MADE_OF))
    rows = [(key, 0) for key in range(32)]
    reports = list(stage.attempts(slow(batch(rows[:5]), batch(rows[5:]))))
    times = [(one.durations_ms.get("read", 0), one.durations_ms.get("sort", 0)) for one in reports]
    assert times == [(2_000, 20_000), (0, 0), (0, 0), (0, 0)]
    assert [one.durations_ms["process"] for one in reports] == [100_000, 200_000, 300_000, 400_000]
    begun = [one.measured["startedAtMs"] for one in reports]
    assert begun == [7_000, 129_000, 329_000, 629_000]
    assert sum(one.measured.get("inputBytes", 0) for one in reports) == batch(rows).nbytes


def test_the_state_of_all_is_brought_while_spark_makes_the_rows(stage: Stage) -> None:
    """No row is asked for before; the counts of what was brought are in the first report, those of all together."""
    rows = [(key, 0) for key in range(32)]
    stage.commit(list(stage.attempts(iter([batch(rows)]))))
    brought: list[int] = []

    def later() -> Iterator[pa.RecordBatch]:
        brought.append(stage.cache.rebuilds)
        yield batch(rows)

    reports = list(stage.attempts(later()))
    assert brought == [SHARDS]
    assert [one.measured.get("replicaMisses", 0) for one in reports] == [SHARDS, 0, 0, 0]
    assert [one.counters.rows_in for one in reports] == [8] * SHARDS
