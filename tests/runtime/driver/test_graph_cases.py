"""What the stages of a graph do in one epoch, case by case, without Spark (``test_graph_chains`` has random ones)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from graph_kinds import KEY, ROWS, Buckets, BucketSums, Unique, Windows
from graph_support import Job, Kind, Row, Stage
from mixedmode.runtime.driver.epochs import epoch_runner, event_times
from mixedmode.runtime.driver.epochs.source_rows import SourceRows
from mixedmode.runtime.driver.run import idle_wait
from mixedmode.runtime.operators.contract import KeyedOperator
from mixedmode.runtime.operators.keyed.keyed_input import KeyedInput
from mixedmode.runtime.operators.processor.operator import ProcessorOperator
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

Make = Callable[..., Job]


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Make]:
    """Makes a job whose stages follow each other; their names are a, b, ..."""
    made: list[Job] = []

    def make(*kinds: Kind, timers: str = "in-order", delay_ms: int = 0) -> Job:
        uids = ["", *"abc"]
        stages = [Stage(uids[n], kind, (uids[n - 1],), delay_ms if n == 1 else 0) for n, kind in enumerate(kinds, 1)]
        made.append(Job(tmp_path, stages, timers))
        return made[-1]

    yield make
    for one in made:
        one.close()


def at(time_ms: int | None, value: int = 1, key: Any = "a") -> Row:
    return (key, None if time_ms is None else time_ms * 1000, value)


def end_of(time_ms: int, value: int, key: Any = "a") -> Row:
    """A window's row, of its last instant."""
    return (key, time_ms * 1000 - 1, value)


def test_an_outer_window_fires_in_the_epoch_of_the_last_inner_one(chain: Make) -> None:
    """C2: windows of 5 ms, then of 20 ms over their times; in no epoch later than the watermark says."""
    job = chain(Windows(5), Windows(20))
    assert job.take("live", [at(1), at(6, key=None), at(17)]) == []
    # A row at the end of a window is not in it; the watermark is where the windows end.
    assert job.take("live", [at(20, 100)]) == []
    assert job.take("clock") == [end_of(20, 2), end_of(20, 1, None)]
    assert job.take("live", [at(39), at(40)]) == []
    assert job.take("live", [at(41)]) == [end_of(40, 101)]
    assert job.fired_ms() == {"a": 40, "b": 40}


def test_a_run_asks_whether_a_source_is_drained_while_that_moves_anything(chain: Make) -> None:
    """Behind rows that bring the watermark on, until it has fired in all stages; asking takes calls to the JVM."""
    job, asks = chain(Unique("key"), Windows(10)), list[bool]()
    for what, rows in (("live", [at(15)]), ("clock", []), ("live", [at(14, key="b")]), ("clock", [])):
        job.take(what, rows)
        asks.append(job.epochs.moves_if_idle())
    assert asks == [True, False, False, False]


def test_rows_that_are_emitted_behind_what_has_fired_are_late_there(chain: Make) -> None:
    """C3: a processor hands on rows of 30 ms before; the next stage has fired up to there, drops and counts them."""
    job = chain(Buckets(5, back_ms=30), Windows(10))
    job.take("live", [at(100)])
    assert (job.take("clock"), job.fired_ms()["b"]) == ([], 100)
    job.take("live", [at(104), at(106)])
    assert job.take("clock") == [], "the row of 75 is behind 100"
    assert (job.fired_ms()["b"], job.late) == (106, {"a": 0, "b": 1})


def test_in_a_backlog_nothing_is_late_between_stages(chain: Make) -> None:
    """C3: the same rows in one sorted pass are all used."""
    job = chain(Buckets(5, back_ms=30), Windows(10))
    assert job.take("backlog", [at(100), at(104), at(106)]) == [end_of(80, 2)]
    assert job.late == {"a": 0, "b": 0}


@dataclass(frozen=True)
class Delayed(Kind):
    """Gives each row out 100 ms of processing time after it came."""

    prepared = Buckets.prepared
    handed_on = Buckets.handed_on

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        return ProcessorOperator(
            Waiting(),
            uid=uid,
            rows=KeyedInput(ROWS, ("k",), KEY, "ts", follows),
            output_schema=ROWS,
            time_mode="processingTime",
        )


class Waiting(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 100)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield key[0], None, expiredTimerInfo.getExpiryTimeInMs()


def test_timers_of_a_clock_epoch_reach_the_next_stage_in_it(chain: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9: without rows, timers that are due by the clock, and in ``test_an_outer_window_…`` by event time, fire in the
    first stage, and their rows are through the others when the epoch is applied."""
    now = [1000]
    monkeypatch.setattr(epoch_runner, "now_ms", lambda: now[0])
    job = chain(Delayed(), Unique("key"), Delayed())
    job.take("live", [at(5), at(5, key="b")])
    epoch, now[0] = job.state.epoch, 1099
    assert (job.take("clock"), job.state.epoch) == ([], epoch), "nothing is due, so there is no epoch"
    now[0] = 1100
    job.take("clock")
    assert [(executor.got.get(epoch + 1)) for executor in job.executors.values()] == [0, 2, 2]
    now[0] = 1200
    assert job.take("clock") == [at(None, 1200), at(None, 1200, "b")]
    assert job.state.epoch == epoch + 2


def test_a_stage_that_has_finished_fires_nothing_by_the_clock(chain: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pending processing-time timers make no epoch, take part in none without rows of its own, and wake nobody;
    those of other stages fire as ever."""
    now = [1000]
    for module in (epoch_runner, idle_wait):
        monkeypatch.setattr(module, "now_ms", lambda: now[0])
    job = chain(Delayed(), Delayed())
    run = SimpleNamespace(
        context=SimpleNamespace(turn=job.epochs.turn),
        scheduler=SimpleNamespace(next_trigger_ms=lambda *, changed: None),
        checkpoints=SimpleNamespace(has_change=False),
        state=job.state,
    )
    job.take("live", [at(5)])
    now[0] = 1100
    job.take("clock")  # the row waits in the second stage now
    job.take("live", [at(6, key="b")])
    epoch, now[0] = job.state.epoch, 1150
    assert idle_wait.idle_s(run) == 0.05  # type: ignore[arg-type]
    job.state.stages["a"].finished = True
    now[0] = 1200
    assert job.take("clock") == [at(None, 1200)]
    assert (job.state.epoch, epoch + 1 in job.executors["a"].got) == (epoch + 1, False)
    now[0] = 1300
    assert (job.take("clock"), job.state.epoch) == ([], epoch + 1)
    job.epochs.streaming_epoch(job.phase, SourceRows())
    assert [epoch + 2 in executor.got for executor in job.executors.values()] == [False, False]
    assert idle_wait.idle_s(run) == 1  # type: ignore[arg-type]


def test_a_stage_fires_without_rows_of_its_own(chain: Make) -> None:
    """C10: an epoch whose rows are all duplicates moves the watermark of the next stage, and an epoch of the clock in
    which only the next stage has anything to do leaves the one before it alone."""
    job = chain(Unique("key"), Buckets(10), timers="after-rows")
    job.take("live", [at(3), at(13)])
    assert job.take("live", [at(14), at(25)]) == [at(10)], "handed on nothing, and the watermark has come to 13"
    assert [executor.got[2] for executor in job.executors.values()] == [2, 0]
    job.take("live", [at(31, key="b")])
    assert job.take("live", [at(55)]) == []
    seen = job.state.epoch
    assert job.take("clock") == [at(40, key="b")]
    assert [seen + 1 in executor.got for executor in job.executors.values()] == [False, True]
    assert job.fired_ms() == {"a": 55, "b": 55}


def test_nulls_ties_and_empty_epochs(chain: Make) -> None:
    """Null keys are one key, rows without event time are in no window, and an epoch without rows fires what is due."""
    job = chain(Unique("time"), Windows(10))
    job.take("backlog", [at(None), at(None), at(3, key=None), at(3, key=None), at(3)])
    assert job.take("live") == []
    assert job.take("live", [at(3), at(10)]) == []
    assert job.take("live") == [end_of(10, 1), end_of(10, 1, None)]
    assert job.take("live", [at(10), at(10, key=None), at(9)]) == []
    assert job.take("end") == [end_of(20, 1), end_of(20, 1, None)]
    assert job.late == {"a": 1, "b": 0}


class Together(Buckets):
    """Buckets whose sums go on under one key."""

    def handed_on(self, row: dict[str, Any]) -> Row:
        return ("all", row["ts"], row["v"])


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_timers_of_a_later_stage_wait_for_all_keys_of_the_one_before(chain: Make, cut: int) -> None:
    """Rows of x bring its timers to 40; what y has due at 20 comes with them, not behind what fires at 30 for both."""
    job = chain(Together(10), Buckets(10))
    rows = [at(12, key="y"), at(15, key="x"), at(35, key="x"), at(45, key="x")]
    found = [row for some in (rows[:cut], rows[cut:]) for row in job.take("live", some)]
    found += job.take("clock") + job.take("end")
    assert found == [at(30, 2, "all"), at(50, key="all"), at(60, key="all")]


class Shown(Buckets):
    """Gives each row on with the watermark that it comes at."""

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        operator = super().operator(uid, follows=follows, in_order=in_order)
        operator._pickled = cloudpickle.dumps(Showing())  # type: ignore[attr-defined]
        return operator


class Showing(BucketSums):
    def __init__(self) -> None:
        super().__init__(10, 0)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            yield key[0], row.ts, timerValues.getCurrentWatermarkInMs()


@pytest.mark.parametrize("is_live", [True, False])
def test_a_history_brings_the_watermark_on(tmp_path: Path, is_live: bool) -> None:
    """In-order a row of t comes at t - delay, in the whole pass of a bounded job as well, and so behind a stage."""
    job = Job(tmp_path, [Stage("a", Shown(10), delay_ms=2), Stage("b", Shown(10), ("a",), 3)], is_live=is_live)
    assert job.take("whole", [at(5), at(9), at(30, key="b")]) == [at(5, 0), at(9, 4), at(30, 25, "b")]
    job.close()


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "history only"])
def test_the_end_comes_to_a_stage_beside_and_behind_another(tmp_path: Path, is_live: bool) -> None:
    """A stage that takes rows of the source and of another gets all of both, whether the source is live or not."""
    job = Job(tmp_path, [Stage("a", Windows(10)), Stage("b", Windows(20), ("", "a"))], is_live=is_live)
    assert job.take("whole", [at(5), at(25)]) == [end_of(20, 2), end_of(40, 2)]
    job.close()


def test_nothing_comes_of_an_idle_source_beside_a_stage_that_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time that passes fires up to where the source is, not to MAX; its next rows are not late, and nothing is lost."""
    now = [0]
    monkeypatch.setattr(epoch_runner, "now_ms", lambda: now[0])
    monkeypatch.setattr(event_times, "now_ms", lambda: now[0])
    history = Stage("h", Windows(10), condition=lambda row: row[0] == "h")
    job = Job(tmp_path, [history, Stage("b", Windows(20), ("", "h"), delay_ms=2)])
    job.take("whole", [at(5, key="h")])
    job.state.stages["h"].finished = True
    watermark = job.state.stages["b"].watermark
    watermark.idle_timeout_ms = 1000
    watermark.watch(0, ["live"])
    assert job.take("live", [at(45)]) == []
    now[0] = 5000
    assert (job.take("clock"), watermark.current_ms, job.fired_ms()["b"]) == ([], 43, 43)
    assert job.take("live", [at(44), at(63)]) == []
    assert (job.take("clock"), job.late["b"]) == ([end_of(60, 2)], 0)
    job.close()


def test_two_stages_are_one_job_while_the_first_one_hands_rows_on(chain: Make) -> None:
    """The second one's watermark is what it is behind the first one's job; without rows there is nothing to join."""
    job, alone = chain(Unique("key"), Windows(10), timers="after-rows"), []
    for number, rows in enumerate(
        [[at(1)], [at(14, key="b")], [at(15, key="b")], [at(16, key="c")], [at(30, key="d")]]
    ):
        alone.append(job.epochs_together)
        found = job.take("live", rows)
        assert found == {2: [end_of(10, 1)]}.get(number, []), number
    assert [*alone, job.epochs_together] == [0, 0, 1, 2, 2, 3]
