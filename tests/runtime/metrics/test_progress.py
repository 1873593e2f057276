"""Live progress of a sorted pass: what tasks report is what the driver sums up."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from mixedmode.runtime.catalyst.spark_cluster import JobWork
from mixedmode.runtime.connectors.sources.data_loss import ForgottenMessages
from mixedmode.runtime.metrics.backlog_progress import BacklogProgress
from mixedmode.runtime.metrics.events.events import CheckpointCompleted, DataLost
from mixedmode.runtime.metrics.events.facts import (
    BacklogMoved,
    EpochReport,
    RowsDelivered,
    SourceSeen,
    messages_lost,
)
from mixedmode.runtime.metrics.pass_costs import pass_costs
from mixedmode.runtime.metrics.progress import QueryProgress, timestamp
from mixedmode.runtime.metrics.run_history import RunHistory
from mixedmode.runtime.storage.filesystem import delete_quietly
from mixedmode.runtime.tasks.progress import ScanProgress, TaskProgress
from pyarrow import fs
from pyspark.sql import Row


@pytest.fixture
def backlog(tmp_path: Path) -> BacklogProgress:
    return BacklogProgress(fs.LocalFileSystem(), str(tmp_path / "progress"))


def task(backlog: BacklogProgress, attempt: str, rows_column: str | None = None) -> TaskProgress:
    return TaskProgress(fs.LocalFileSystem(), backlog.folder, attempt, rows_column)


def batches(*sizes: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"v": [1] * size, "__rows": [3] * size}) for size in sizes]


def test_a_pass_is_told_while_it_runs_and_at_its_end(tmp_path: Path) -> None:
    """Whoever listens hears of a pass at once, and of its end if that was a success."""
    told: list[BacklogMoved] = []
    begun = threading.Event()

    def hear(fact: Any) -> None:
        told.append(fact)
        begun.set()

    backlog = BacklogProgress(fs.LocalFileSystem(), str(tmp_path / "progress"), SimpleNamespace(on=hear))
    backlog.begin(total_rows=10, shards=2, stage="s")
    assert begun.wait(60)
    assert (told[0].stage, told[0].snapshot["shardsDone"], told[0].snapshot["fraction"]) == ("s", 0, None)
    backlog.end()
    assert told[-1].snapshot.keys() == told[0].snapshot.keys()
    last = {name: told[-1].snapshot[name] for name in ("shardsDone", "rows", "rowsRead", "fraction", "etaSeconds")}
    assert last == {"shardsDone": 2, "rows": 10, "rowsRead": 10, "fraction": 1.0, "etaSeconds": 0.0}

    told.clear()
    begun.clear()
    backlog.begin(total_rows=None, shards=2, stage="t")
    assert begun.wait(60)
    backlog.end(succeeded=False)
    assert {(fact.stage, fact.snapshot["shardsDone"]) for fact in told} == {("t", 0)}


def test_a_look_that_fails_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark may just be forgetting the stage that it is asked for: the pass is told of after that, too."""
    monkeypatch.setattr("mixedmode.runtime.metrics.backlog_progress._RETRY_S", 0.01)
    monkeypatch.setattr("mixedmode.runtime.metrics.backlog_progress.progress_interval_s", lambda _: 0.01)
    looks: list[int] = []
    heard = threading.Event()

    def work() -> JobWork:
        looks.append(1)
        if len(looks) in (1, 2, 4):
            raise RuntimeError("no such stage")
        return JobWork()

    backlog = BacklogProgress(
        fs.LocalFileSystem(), str(tmp_path / "progress"), SimpleNamespace(on=lambda _: len(looks) > 4 and heard.set())
    )
    backlog.begin(total_rows=10, shards=2, work=work)
    assert heard.wait(60)
    backlog.end()


def test_a_pass_that_begins_again_is_told_from_its_beginning(backlog: BacklogProgress) -> None:
    """A job whose results are not used takes its reports along: the shards that it had done are not done."""
    backlog.begin(total_rows=8, shards=2)
    for attempt in ("1", "2"):
        done = task(backlog, attempt)
        list(done.processing(done.reading(iter(batches(4)))))
        done.write(done=True)
    assert (backlog.snapshot()["shardsDone"], backlog.snapshot()["rows"]) == (2, 8)
    delete_quietly(fs.LocalFileSystem(), backlog.folder)
    again = task(backlog, "3")
    list(again.reading(iter(batches(4))))
    assert (backlog.snapshot()["shardsDone"], backlog.snapshot()["rows"]) == (0, 0)


def test_a_report_that_is_being_replaced_counts_as_before(backlog: BacklogProgress) -> None:
    """A look between two of a task's steps neither forgets its rows nor fails."""
    backlog.begin(total_rows=10, shards=1)
    one = task(backlog, "1")
    list(one.reading(iter(batches(4))))
    one.write()
    assert backlog.snapshot()["rowsRead"] == 4
    for half in ("", '{"read": '):
        Path(backlog.folder, "1").write_text(half)
        assert backlog.snapshot()["rowsRead"] == 4


def test_rows_of_all_tasks_are_summed(backlog: BacklogProgress) -> None:
    """Rows read and rows done are told apart; the fraction counts both halves of the work."""
    backlog.begin(total_rows=10, shards=2)
    first, second = task(backlog, "1"), task(backlog, "2")
    assert len(list(first.processing(first.reading(iter(batches(2, 3)))))) == 2
    first.write(done=True)
    list(second.reading(iter(batches(3))))
    second.spilled(99)
    second.write()

    seen = backlog.snapshot()
    assert (seen["rowsRead"], seen["rows"], seen["shardsDone"], seen["spilledBytes"]) == (8, 5, 1, 99)
    assert 0.3 < seen["fraction"] < 0.7


@pytest.mark.parametrize("seconds_per_row", [0.15, 2.0])
def test_slow_operators_report_rows_long_before_the_end_of_a_batch(
    backlog: BacklogProgress, monkeypatch: pytest.MonkeyPatch, seconds_per_row: float
) -> None:
    """A user's code that takes its time for each row gets few rows between two reports."""
    now_s = [100.0]
    monkeypatch.setattr("mixedmode.runtime.tasks.progress.time", SimpleNamespace(monotonic=lambda: now_s[0]))
    backlog.begin(total_rows=1000, shards=1)
    one = task(backlog, "1")
    reported: list[int] = []
    for piece in one.processing(one.reading(iter(batches(1000)))):
        reported.append(backlog.snapshot()["rows"])
        now_s[0] += piece.num_rows * seconds_per_row
    steps = [after - before for before, after in pairwise(reported)]
    assert steps[0] == 64
    assert max(steps[1:]) * seconds_per_row <= max(1.0, seconds_per_row)


def test_fast_operators_get_large_pieces_in_which_no_row_is_lost(backlog: BacklogProgress) -> None:
    """The pieces grow at once, across batches, and an empty batch is handed on as it is."""
    one = task(backlog, "1")
    pieces = [piece.num_rows for piece in one.processing(iter(batches(0, 600_000, 400_000)))]
    assert (pieces[0], sum(pieces)) == (0, 1_000_000)
    assert len(pieces) <= 12


def test_partial_rows_count_as_what_they_stand_for(backlog: BacklogProgress) -> None:
    """A row of a partial aggregate counts as the input rows that went into it."""
    backlog.begin(total_rows=30, shards=1)
    one = task(backlog, "1", "__rows")
    list(one.processing(iter(batches(4))))
    one.write()

    assert backlog.snapshot()["rows"] == 12


def test_spark_s_metrics_tell_how_far_it_is_before_the_shards(backlog: BacklogProgress) -> None:
    """Rows read and shuffled by its tasks; nothing is said before something was measured, and no bar stands at 0 %."""
    told = [JobWork(), JobWork(0, 4, 10), JobWork(1, 4, 300, 250), JobWork(1, 12, 400, 300)]
    backlog.begin(total_rows=None, shards=2, work=lambda: told.pop(0))
    seen = [backlog.snapshot() for _ in range(4)]
    assert [one["rowsRead"] for one in seen] == [0, 10, 300, 400]
    assert [one["rowsShuffled"] for one in seen] == [0, 0, 250, 300]
    assert [one["fraction"] is None for one in seen] == [True, True, False, False]
    assert [one["etaSeconds"] is None for one in seen] == [True, True, False, False]
    assert 0 < seen[2]["fraction"] <= seen[3]["fraction"], "a fraction does not fall when Spark plans more tasks"

    backlog.begin(total_rows=1000, shards=2, work=lambda: JobWork(0, 4, 250))
    assert backlog.snapshot()["fraction"] > 0, "where the number of rows is known no task must have ended"


def test_shards_of_rows_that_spark_has_reduced_are_not_done_too_early(
    backlog: BacklogProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was measured: Spark reads 3,000,010 rows, shuffles 200,008 groups of them, and the shards count the rows.
    Nobody knows how many rows a join of Spark's gives: no time is told, not even that of the rows that were read."""
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def last_look(work: JobWork, looks: list[tuple[float, int | None, int]], **kind: bool) -> dict[str, Any]:
        nonlocal now_s
        now_s, told = 0.0, dict[str, Any]()
        backlog.begin(None, 2, lambda: work, **kind)
        for at_s, taken, done in looks:
            now_s = at_s
            for name in "ab" if taken is not None else "":
                one = task(backlog, name)
                one._counts.update(read=taken, rows=done)
                one.write()
            told = backlog.snapshot()
        return told

    aggregate = [(10.0, None, 0), (20.9, 0, 0), (22.0, 308_369, 0), (24.2, 1_494_578, 300_201)]
    told = last_look(JobWork(3, 3, 3_000_010, 200_008), aggregate, is_aggregated=True)
    assert told["fraction"] < 0.99 and told["etaSeconds"] != 0
    join = [(19.5, None, 0), (27.7, 0, 0), (41.8, 205_000, 195_000), (45.3, 260_000, 260_000), (50.9, 485_000, 475_000)]
    told = last_look(JobWork(16, 16, 8_000_052, 4_097_238), join, by_spark=True)
    assert told["etaRangeSeconds"] is None, "it had 6 seconds to go, and more than 100 were told"


#: Seconds until workers run; that a task reads, and then sorts and writes, each of two one after the other.
SCANS = [(2, 10, 10, 8, 9), (5, 40, 50, 45, 40), (3, 60, 50, 60, 50)]


@pytest.mark.parametrize("times_s", SCANS)
@pytest.mark.parametrize("kept", [1.0, 0.3])
def test_the_time_to_go_of_files_that_tasks_scan_is_about_right(
    backlog: BacklogProgress, monkeypatch: pytest.MonkeyPatch, times_s: tuple[int, ...], kept: float
) -> None:
    """By what scanning tasks report of their row groups, and then the shards', which take about what they typically
    take: most numbers are right within 30 %, or two seconds; also where a condition keeps few rows."""
    costs = pass_costs("scanned", "agg")
    shards_take_s = sum(times_s[1:]) * (costs.take + costs.work) * kept / costs.before(kept)
    *scanning_s, shards_s, read_s, done_s = map(round, accumulate((*times_s, 1, 1, shards_take_s)))
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    rows, groups, file_bytes, filesystem = 8_000_000, 8, 100_000_000, fs.LocalFileSystem()
    backlog.begin(None, 2, lambda: JobWork(int(now_s >= scanning_s[-1]), 6, 4), is_aggregated=True, kind="agg")
    shards = [task(backlog, str(shard)) for shard in range(2)]
    #: When a task does what.
    steps: list[tuple[float, Callable[[], Any]]] = []

    def scanned(one: ScanProgress, seen: Callable[[int, int, float], None], group: int) -> None:
        one.waits(int(rows * kept) // 4 * group / groups)
        seen(rows // 4 // groups, int(rows * kept) // 4 // groups, group / groups)
        one.write()

    def worked(**counts: int) -> None:
        for one in shards:
            one._counts.update(counts)
            one.write()

    for number in range(4):
        begin_s, full_s, written_s = scanning_s[2 * (number // 2) :][:3]
        one = ScanProgress(filesystem, backlog.folder, f"s-{number}", 4 * file_bytes)
        seen = one.part_begins(file_bytes)
        steps += [(begin_s, one.write), (written_s, partial(one.written, int(rows * kept) // 4))]
        for n in range(1, groups + 1):
            steps.append((begin_s + (full_s - begin_s) * n / groups, partial(scanned, one, seen, n)))
    each = int(rows * kept) // 2
    steps.append((shards_s, worked))
    for n in range(1, groups):
        counts = {"read": each * n // groups, "rows": each * n // groups}
        steps.append((read_s + (done_s - read_s) * n / groups, partial(worked, **counts)))
    steps.sort(key=lambda step: step[0])
    looks = numbers = right = ranges = right_ranges = 0
    for second in range(1, done_s):
        while steps and steps[0][0] <= second:
            now_s, step = steps.pop(0)
            step()
        now_s = float(second)
        told, left_s = backlog.snapshot(), done_s - second
        if second > done_s / 3:
            looks += 1
            assert told["fraction"], "a bar that stands at 0 % tells nothing"
            if told["etaSeconds"] is not None:
                right += abs(told["etaSeconds"] - left_s) <= max(0.3 * left_s, 2)
                numbers += 1
            if told["etaRangeSeconds"] is not None:
                low_s, high_s = told["etaRangeSeconds"]
                right_ranges += low_s - 1 <= left_s <= high_s + 1
                ranges += 1
    assert numbers > 0.3 * looks and right > 0.7 * numbers, (looks, numbers, right)
    assert ranges > 0.5 * looks and right_ranges > 0.7 * ranges, (looks, ranges, right_ranges)
    assert told["rowsRead"] == rows and 0 < told["rows"] < rows * kept


def test_shards_whose_rows_are_all_there_are_told_by_the_one_with_most_to_do(backlog: BacklogProgress) -> None:
    """One of two has nine tenths of the rows: when both have done half of what the smaller one has, little is done."""
    for sizes in ((900, 100), (500, 500)):
        backlog.begin(total_rows=1000, shards=2)
        for name, rows in zip("ab", sizes, strict=True):
            one = task(backlog, name)
            list(one.reading(iter(batches(rows))))
            list(one.processing(iter(batches(50))))
            one.write()
        seen = backlog._seen([json.loads(Path(backlog.folder, name).read_text()) for name in "ab"], JobWork())
        assert seen.taken_in == 1
        assert seen.processed == pytest.approx(0.1 if sizes[0] == 500 else (0.1 + 50 / 900) / 2)


def test_what_a_scan_hands_on_is_told_before_it_is_written(backlog: BacklogProgress) -> None:
    """As a guess while rows wait, and as it is when a run is written."""
    backlog.begin(None, 2, is_aggregated=True, kind="agg")
    one = ScanProgress(fs.LocalFileSystem(), backlog.folder, "s", 100)
    seen = one.part_begins(100)
    one.waits(25.0)
    seen(100, 100, 0.5)
    one.write()
    backlog._read_reports()
    assert (backlog._seen([], JobWork()).handed, backlog._seen([], JobWork()).written) == (0.25, 0.0)
    seen(100, 100, 1.0)
    one.written(20)
    backlog._read_reports()
    assert (backlog._seen([], JobWork()).handed, backlog._seen([], JobWork()).written) == (0.1, 1.0)


def test_rows_of_a_join_that_tasks_scan_are_not_counted_against_those_that_are_read(backlog: BacklogProgress) -> None:
    """What its shards get is what the join gives, and nobody knows how many rows that will be."""
    backlog.begin(None, 1, kind="join")
    scan = ScanProgress(fs.LocalFileSystem(), backlog.folder, "s", 100)
    scan.part_begins(100)(100, 0, 1.0)
    scan.written(100, kept=100)
    one = task(backlog, "1")
    reading = one.processing(one.reading(iter(batches(60, 60, 60))))
    next(reading), next(reading)
    one.write()
    backlog._read_reports()
    seen = backlog._seen(list(backlog._shard_reports.values()), JobWork())
    assert (seen.begun, seen.taken_in, seen.processed) == (1.0, 0.0, 0.0)


def test_progress_never_fails_a_task(tmp_path: Path) -> None:
    """An unwritable folder costs the report, not the rows."""
    (tmp_path / "file").write_text("in the way")
    one = TaskProgress(fs.LocalFileSystem(), str(tmp_path / "file"), "1", None)

    assert sum(batch.num_rows for batch in one.reading(iter(batches(2, 3)))) == 5


def test_the_end_removes_the_reports(backlog: BacklogProgress) -> None:
    """Nothing of a finished pass is left on disk."""
    backlog.begin(total_rows=1, shards=1)
    task(backlog, "1").write()
    assert Path(backlog.folder).exists()
    backlog.end()
    assert not Path(backlog.folder).exists()


def test_a_look_behind_the_end_does_not_fail(backlog: BacklogProgress) -> None:
    """A pass is over before its phase is, and status is asked for in between."""
    backlog.begin(total_rows=10, shards=1)
    one = task(backlog, "1")
    list(one.reading(iter(batches(4))))
    one.write()
    reached = backlog.snapshot()["fraction"]
    backlog.end()
    assert backlog.snapshot()["fraction"] >= reached


def test_a_record_cannot_be_changed() -> None:
    """Nor can what is in it, in any way that a dictionary or list has; it is equal to, and prints as, a plain one."""
    plain = {"sources": [{"description": "live"}], "durationMs": {"addBatch": 1}, "name": None}
    record = QueryProgress(plain)
    plain["sources"][0]["description"] = "other"  # type: ignore[index]
    assert record.sources == [{"description": "live"}]
    edits: list[Callable[[], Any]] = [
        lambda: record.__setitem__("name", "x"),
        lambda: record.update(name="x"),
        lambda: record.pop("name"),
        lambda: record.clear(),
        lambda: record.setdefault("x", 1),
        lambda: record.__ior__({"name": "x"}),
        lambda: record.durationMs.__delitem__("addBatch"),
        lambda: record.sources.append({}),
        lambda: record.sources.sort(),
        lambda: record.sources.__iadd__([1]),
        lambda: record.sources[0].__setitem__("description", "x"),
    ]
    before = record.json
    for edit in edits:
        with pytest.raises(TypeError, match="cannot be changed"):
            edit()
    assert record.json == before == json.dumps(record)
    for copied in (pickle.loads(pickle.dumps(record)), copy.deepcopy(record), copy.copy(record)):
        assert type(copied) is QueryProgress and copied == record == json.loads(before)
    mine = {**record, "name": "mine"}
    mine["name"] = "again"
    assert record.name is None


def test_what_is_learnt_later_is_in_later_records() -> None:
    """A delivery and a checkpoint after an epoch do not touch the record that was handed out before."""
    history = RunHistory("run", None, "sink")
    history._recent.append(QueryProgress(durationMs={"addBatch": 5, "triggerExecution": 5}, checkpoint=None))
    (before,) = history.recent
    history.on(RowsDelivered(0.002))
    (delivered,) = history.recent
    history.on(CheckpointCompleted(checkpoint_id=3, trigger="interval", kind="checkpoint", duration_ms=7))
    (checkpointed,) = history.recent
    assert before == {"durationMs": {"addBatch": 5, "triggerExecution": 5}, "checkpoint": None}
    assert delivered.durationMs == {"addBatch": 5, "deliver": 2, "triggerExecution": 7} and delivered.checkpoint is None
    assert checkpointed.checkpoint["id"] == 3 and checkpointed.durationMs == delivered.durationMs


def test_lost_messages_are_in_the_record_of_their_epoch() -> None:
    """With the source that lost them, whether they are told of before or after the epoch; records of others stay."""
    history = RunHistory("run", None, "sink")

    def lost(first: int, epoch: int) -> DataLost:
        return messages_lost(ForgottenMessages("t", 1, first, first + 1, True), "b", epoch)

    def epoch(number: int) -> EpochReport:
        sources = tuple(SourceSeen(name, False, False, None) for name in "ab")
        return EpochReport("job", number, "random", "live", 0.1, 0, None, sources, ())

    history.on(lost(7, 2))
    history.on(epoch(1))
    history.on(epoch(2))
    history.on(lost(3, 1))
    history.on(lost(9, 2))
    told = [[(one["description"], one.get("dataLost")) for one in record.sources] for record in history.recent]
    ranges = [[known and [one["firstOffset"] for one in known] for _, known in sources] for sources in told]
    assert ranges == [[None, [3]], [None, [7, 9]]]
    assert told[0][1][1] == [{"topic": "t", "partition": 1, "firstOffset": 3, "lastOffset": 4, "fate": "gone"}]


def test_entries_are_attributes() -> None:
    """A progress record is a dictionary whose entries can be read as attributes, as in Spark."""
    record = QueryProgress(numInputRows=3)

    assert record.numInputRows == record["numInputRows"] == 3
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    with pytest.raises(AttributeError):
        _ = record.nothing


def test_observed_metrics_are_rows_and_as_text_objects() -> None:
    """As in Spark's progress: a Row by name, whose JSON has its fields, whatever their types."""
    day = datetime.date(2025, 1, 2)
    row = Row(n=3, at=datetime.datetime(2025, 1, 2, 3), price=Decimal("1.5"), tag=bytearray(b"ab"), none=None)
    many = Row(**{"collect_set(k)": ["a"], "by day": {day: 1}, "by name": {"x": Row(v=1)}})
    progress = QueryProgress(observedMetrics={"rows": row, "many": many})
    assert progress["observedMetrics"]["rows"].n == progress.observedMetrics["rows"].asDict()["n"] == 3
    assert json.loads(progress.json)["observedMetrics"] == {
        "rows": {"n": 3, "at": "2025-01-02 03:00:00", "price": 1.5, "tag": "YWI=", "none": None},
        "many": {
            "collect_set(k)": ["a"],
            "by day": [{"key": "2025-01-02", "value": 1}],
            "by name": {"x": {"v": 1}},
        },
    }
    assert json.loads(progress.prettyJson) == json.loads(progress.json)
    assert pickle.loads(pickle.dumps(progress)) == progress


def test_every_field_of_a_record_is_typed() -> None:
    """What a record has is what the class tells checkers of types, field by field."""
    history = RunHistory("run", None, "sink")
    history.on(EpochReport("job", 1, "random", "live", 0.1, 0, None, (), ()))
    (record,) = history.recent
    assert list(record) and set(record) == set(QueryProgress.__annotations__)
