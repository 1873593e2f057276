"""Every cell of the table of modes: the same job and data in each of them, stock Spark's batch result as the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import support
from mixedmode import MixedQuery
from support import World

EVENTS = support.stream_of(420, seed=7)
#: Where the history ends, where what waits at the start ends, and where the first live file ends.
HISTORY, WAITING, FIRST = 240, 320, 370
#: A checkpoint after every step, wherever one is allowed.
EAGER = {"execution.checkpointing.interval": "1 ms"}


class Run:
    """One finished run of the test job and what it left."""

    def __init__(self, world: World, query: MixedQuery, expected: list[tuple[Any, ...]]) -> None:
        self.world = world
        self.query = query
        self.names = support.events_of(query)
        self.output = world.results()
        self.expected = expected
        self.progress = query.recentProgress

    def phases(self) -> list[str]:
        return support.details(self.query, "phase")

    def checkpoints_before(self, phase: str) -> int:
        """How many checkpoints had been taken when a phase began."""
        events = self.query.lifecycle
        begin = next(i for i, event in enumerate(events) if event.event == "phase" and event.detail == phase)
        return sum(event.event == "checkpoint" for event in events[:begin])


def run_live(world: World, options: dict[str, str]) -> Run:
    """History and waiting data, then two live files, then a row that closes every session."""
    world.land(EVENTS[HISTORY:WAITING])
    query = support.live(world.start(support.sessions(world.history(EVENTS[:HISTORY]), world.live()), options))
    world.feed(query, EVENTS[WAITING:FIRST], EVENTS[FIRST:], support.flush_after(EVENTS))
    support.stop(query)
    return Run(world, query, world.expected(EVENTS))


def run_bounded(world: World, options: dict[str, str], live: bool = False) -> Run:
    """All events as history (or a part of them waiting at a live source in batch mode); runs to its end."""
    if live:
        world.land(EVENTS[HISTORY:WAITING], EVENTS[WAITING:])
    history = world.history(EVENTS[:HISTORY] if live else EVENTS)
    query = world.start(support.sessions(history, world.live() if live else None), options)
    query.awaitTermination(300)
    return Run(world, query, world.expected(EVENTS))


def run_available_now(world: World, options: dict[str, str]) -> Run:
    """All there is waits already, with a row that closes every session; runs to its end."""
    world.land(EVENTS[HISTORY:], support.flush_after(EVENTS))
    keyed = support.sessions(world.history(EVENTS[:HISTORY]), world.live())
    query = world.start(keyed, options, availableNow=True)
    query.awaitTermination(300)
    return Run(world, query, world.expected(EVENTS))


MAX = {"execution.backlog.final-watermark": "max"}
SLICED = {"execution.history.rows-per-epoch": "100"}
RUNS: dict[str, Callable[[World], Run]] = {
    "batch": lambda world: run_bounded(world, {"execution.runtime-mode": "batch", **EAGER}, live=True),
    "streaming": lambda world: run_live(world, {"execution.runtime-mode": "streaming", **EAGER, **SLICED}),
    "mixed": lambda world: run_live(world, {"execution.interval-during-backlog": "0", **EAGER}),
    "mixed max": lambda world: run_live(world, {**EAGER, **MAX}),
    "mixed interval": lambda world: run_live(world, {**EAGER, **SLICED, "execution.interval-during-backlog": "1 hour"}),
    "bounded mixed": lambda world: run_bounded(world, EAGER),
    "available streaming": lambda world: run_available_now(
        world, {"execution.runtime-mode": "streaming", **EAGER, **SLICED}
    ),
    "bounded streaming": lambda world: run_bounded(world, {"execution.runtime-mode": "streaming", **EAGER, **SLICED}),
}
LIVE_RUNS = ["streaming", "mixed", "mixed max", "mixed interval"]
#: No other test asks for it; of the other runs each is made for several tests.
SLOW = {"available streaming": pytest.mark.slow}


@pytest.fixture(scope="module")
def run_of(worlds: Callable[[], World]) -> Callable[[str], Run]:
    """Each kind of run, made once and looked at by several tests."""
    made: dict[str, Run] = {}

    def get(name: str) -> Run:
        if name not in made:
            made[name] = RUNS[name](worlds())
        return made[name]

    return get


Runs = Callable[[str], Run]


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in RUNS if name != "mixed max"])
def test_result_equals_stock_batch(run_of: Runs, name: str) -> None:
    """Batch, stream and mixed mode give what a stock batch query gives, over history, waiting and live data (X9)."""
    assert run_of(name).output == run_of(name).expected


def test_sessions_that_straddle_the_switch_fire_twice_under_max(run_of: Runs) -> None:
    """Under ``max`` a session that straddles the switch fires with its first part, later with the rest (X1)."""
    run = run_of("mixed max")
    spark = run.world.spark
    backlog, live = EVENTS[:WAITING], EVENTS[WAITING:]
    expected = support.expected_sessions(spark, backlog) + support.expected_sessions(spark, live)
    assert run.output == sorted(expected, key=repr)
    assert run.output != run.expected, "the data has no session that straddles the switch"


# -- scheduling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        ("batch", ["backlog", "finish"]),
        ("streaming", ["history", "catch-up", "switch", "live"]),
        ("mixed", ["backlog", "switch", "live"]),
        ("mixed max", ["backlog", "switch", "live"]),
        ("mixed interval", ["history", "catch-up", "switch", "live"]),
        ("bounded mixed", ["backlog", "finish"]),
        ("bounded streaming", ["history", "finish"]),
    ],
)
def test_phases(run_of: Runs, name: str, phases: list[str]) -> None:
    """A run goes through the phases that the table gives its mode (and the plan prints)."""
    assert run_of(name).phases() == phases


@pytest.mark.parametrize("name", ["batch", "mixed", "mixed max", "bounded mixed"])
def test_backlog_is_one_sorted_pass(run_of: Runs, name: str) -> None:
    """History and waiting data are one epoch in backlog mode."""
    backlog = [p for p in run_of(name).progress if p.phase == "backlog"]
    assert [(p.mode, p.numInputRows) for p in backlog] == [
        ("backlog", WAITING if name.startswith("mixed") else len(EVENTS))
    ]


@pytest.mark.parametrize("name", ["streaming", "mixed interval"])
def test_stream_takes_the_history_in_epochs(run_of: Runs, name: str) -> None:
    """As a stream the history is several epochs over RocksDB state, and together they have all its rows once."""
    epochs = [p for p in run_of(name).progress if p.phase == "history"]
    assert len(epochs) == 3
    assert {p.mode for p in epochs} == {"streaming"}
    assert sum(p.numInputRows for p in epochs) == HISTORY


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed", "mixed max"])
def test_no_checkpoint_in_a_silent_backlog(run_of: Runs, name: str) -> None:
    """Under interval 0, set or unset, no checkpoint is taken while isBacklog, however short the interval (I1, I3)."""
    assert run_of(name).checkpoints_before("switch") == 0


@pytest.mark.parametrize("name", ["mixed", "mixed max"])
def test_the_switch_takes_a_checkpoint_at_once(run_of: Runs, name: str) -> None:
    """The checkpoint of the switch is the very next thing after the last source leaves the backlog (I4, I5)."""
    run = run_of(name)
    last_switch = max(i for i, event in enumerate(run.names) if event == "switch")
    assert run.names[last_switch + 1] == "checkpoint"
    assert run.query.checkpoints[0]["trigger"] == "switch"
    assert run.names.count("switch") == 2


def test_stream_checkpoints_in_the_backlog_too(run_of: Runs) -> None:
    """In streaming mode checkpoints come every interval, also while a source is in backlog.

    There are three slices; how many checkpoints are complete when the next phase begins is a matter of time.
    """
    assert 1 <= run_of("streaming").checkpoints_before("catch-up") <= 3


def test_interval_during_backlog_rules_in_the_backlog(run_of: Runs) -> None:
    """A long interval-during-backlog takes none in the history; then the base one rules (I1, I2)."""
    run = run_of("mixed interval")
    assert run.checkpoints_before("switch") == 0
    assert len(run.query.checkpoints) >= 3, "one after each live file at least"


def test_batch_takes_no_checkpoint_but_the_commit(run_of: Runs) -> None:
    """Batch mode writes one completion at its end and keeps no state."""
    run = run_of("batch")
    assert [report["trigger"] for report in run.query.checkpoints] == ["end of input"]
    assert run.query.checkpoints[0]["stateEntries"] == 0
    assert not list((run.world.checkpoints / "mixedmode" / "state").rglob("*.sst"))


@pytest.mark.parametrize("name", ["bounded mixed", "bounded streaming"])
def test_end_of_all_input_takes_the_final_checkpoint(run_of: Runs, name: str) -> None:
    """When the only source ends the watermark goes to MAX and the final checkpoint is taken at once (I6, I7, X5)."""
    run = run_of(name)
    assert run.names[-3:] == ["MAX_WATERMARK", "checkpoint", "finished"]
    assert run.query.checkpoints[-1]["trigger"] == "end of input"


# -- state and watermark -----------------------------------------------------------------------------------------------


def test_state_migrates_in_sorted_files(run_of: Runs) -> None:
    """The backlog's state goes to RocksDB as sorted files; the stream adds change logs (until they are compacted)."""
    run = run_of("mixed")
    names = {path.suffix for path in (run.world.checkpoints / "mixedmode" / "state").rglob("e*")}
    assert names == {".sst", ".log"}


@pytest.mark.parametrize("name", ["mixed", "mixed max"])
def test_watermark_after_the_switch_is_by_the_strategy(run_of: Runs, name: str) -> None:
    """From the switch on the watermark is the greatest event time so far, also where MAX fired in the backlog."""
    first_live = next(p for p in run_of(name).progress if p.phase == "live" and p.numInputRows)
    assert (
        first_live.eventTime["watermark"] == support.at(EVENTS[FIRST - 1][1]).isoformat(timespec="milliseconds") + "Z"
    )
    assert first_live.isBacklog is False


@pytest.mark.parametrize("name", LIVE_RUNS)
def test_progress_has_sparks_fields(run_of: Runs, name: str) -> None:
    """Progress carries Spark's field names and ours, and serialises."""
    progress = run_of(name).progress[-1]
    for field in ("id", "runId", "timestamp", "batchId", "numInputRows", "durationMs", "eventTime", "stateOperators",
                  "sources", "sink", "mode", "isBacklog", "checkpoint"):  # fmt: skip
        assert field in progress
    assert progress.json
