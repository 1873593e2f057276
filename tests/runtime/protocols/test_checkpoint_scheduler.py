"""When checkpoints are due: the rules of FLIP-309 and FLIP-327, one by one and as a state machine."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from mixedmode.runtime.protocols.checkpoint_scheduler import COVERED_MS, CheckpointScheduler

INTERVAL_MS = 100


def scheduler(during_backlog_ms: int = 0, *sources: str, in_backlog: bool = True, pause_ms: int = 0):
    """A scheduler at time 0 whose sources are all in backlog, or none."""
    made = CheckpointScheduler(INTERVAL_MS, during_backlog_ms, pause_ms, 0, frozenset(sources or ("live",)))
    for name in made.sources if in_backlog else ():
        made.set_backlog(name, True, 0)
    return made


def take(made: CheckpointScheduler, now_ms: int) -> None:
    """A checkpoint that takes no time."""
    made.triggered(now_ms)
    made.ended_checkpoint(now_ms)


def test_one_is_under_way_at_a_time() -> None:
    """While one is being completed none is due, whatever was asked for; what was due meanwhile is due when it ends."""
    made = scheduler(in_backlog=False)
    made.began(INTERVAL_MS)
    made.request()
    assert made.next_trigger_ms() is None
    assert not made.due(10 * INTERVAL_MS)
    made.ended_checkpoint(10 * INTERVAL_MS)
    assert made.due(10 * INTERVAL_MS)


def test_interval_zero_takes_no_checkpoint_in_the_backlog() -> None:
    """While a source is in backlog under interval 0, no checkpoint is due at any time (I1)."""
    made = scheduler(0)
    assert made.next_trigger_ms() is None
    assert not any(made.due(now_ms) for now_ms in (0, INTERVAL_MS, 10**9))


@pytest.mark.parametrize("during_backlog_ms", [INTERVAL_MS, 3 * INTERVAL_MS])
def test_longer_interval_is_used_in_the_backlog(during_backlog_ms: int) -> None:
    """An equal or longer interval-during-backlog rules while a source is in backlog (I1)."""
    made = scheduler(during_backlog_ms)
    take(made, 0)
    assert not made.due(during_backlog_ms - 1)
    assert made.due(during_backlog_ms)


def test_first_trigger_is_armed_by_the_backlog_interval() -> None:
    """A job that starts in backlog waits interval-during-backlog for its first checkpoint, not the base one (I1)."""
    made = CheckpointScheduler(INTERVAL_MS, 1000, 0, 0, frozenset({"live"}), backlog={"live"})
    assert made.next_trigger_ms() == 1000


@pytest.mark.parametrize("during_backlog_ms", [-1, 1, INTERVAL_MS - 1])
def test_bad_interval_is_rejected_with_both_names(during_backlog_ms: int) -> None:
    """A negative interval-during-backlog, or one shorter than the base interval, is refused naming both (I1)."""
    with pytest.raises(ValueError, match=rf"interval_during_backlog_ms.*interval_ms \({INTERVAL_MS}\)") as caught:
        CheckpointScheduler(INTERVAL_MS, during_backlog_ms, 0, 0, frozenset({"live"}))
    assert str(during_backlog_ms) in str(caught.value)


def auto(during_backlog_ms: int = 0, *, in_backlog: bool = False, pause_ms: int = 0) -> CheckpointScheduler:
    """A scheduler at time 0 whose interval is ``auto``."""
    backlog = {"live"} if in_backlog else set()
    return CheckpointScheduler(None, during_backlog_ms, pause_ms, 0, frozenset({"live"}), backlog=backlog)


def test_under_auto_a_change_makes_one_due_as_soon_as_the_last_has_ended() -> None:
    """One at a time; without a change what has moved is covered within ten seconds."""
    made = auto()
    assert (made.due(0), made.due(0, changed=True), made.due(COVERED_MS - 1), made.due(COVERED_MS)) == (0, 1, 0, 1)
    made.began(50)
    assert not made.due(10**9, changed=True), "one is under way"
    made.ended_checkpoint(60)
    assert made.due(60, changed=True)
    assert made.next_trigger_ms() == 50 + COVERED_MS


def test_under_auto_the_minimum_pause_is_kept() -> None:
    """A change waits for it."""
    made = auto(pause_ms=500)
    take(made, 100)
    assert (made.due(599, changed=True), made.due(600, changed=True)) == (False, True)
    assert made.next_trigger_ms(changed=True) == 600


def test_under_auto_a_failed_one_is_not_tried_again_at_once() -> None:
    """What is tolerated in a row would be used up before the cause can be gone; one that is asked for waits as long."""
    made = auto()
    made.began(0)
    made.ended_checkpoint(10, failed=True)
    assert not made.due(10 + COVERED_MS - 1, changed=True)
    assert made.due(10 + COVERED_MS, changed=True)


@pytest.mark.parametrize("during_backlog_ms", [0, 60_000])
def test_under_auto_a_change_in_the_backlog_makes_none_due(during_backlog_ms: int) -> None:
    """The backlog goes by an interval of its own, or has none; its end makes the first one due."""
    made = auto(during_backlog_ms, in_backlog=True)
    assert not made.due(59_999, changed=True)
    made.set_backlog("live", False, 59_999)
    assert made.due(59_999, changed=True)


def test_under_an_interval_a_change_makes_none_due() -> None:
    """A duration is Flink's interval."""
    assert not scheduler(in_backlog=False).due(INTERVAL_MS - 1, changed=True)


def test_base_interval_must_be_positive() -> None:
    """A base interval of 0 is refused."""
    with pytest.raises(ValueError, match="interval_ms must be > 0, got 0"):
        CheckpointScheduler(0, 0, 0, 0, frozenset({"live"}))


def test_leaving_the_backlog_rearms_earlier() -> None:
    """A switch that makes the next trigger earlier re-arms it at now + base interval (I2)."""
    made = scheduler(1000)
    take(made, 0)
    assert made.next_trigger_ms() == 1000
    made.set_backlog("live", False, 500)
    assert made.next_trigger_ms() == 500 + INTERVAL_MS


def test_leaving_the_backlog_keeps_an_earlier_trigger() -> None:
    """A switch shortly before an armed trigger leaves that trigger alone (I2)."""
    made = scheduler(1000)
    take(made, 0)
    made.set_backlog("live", False, 950)
    assert made.next_trigger_ms() == 1000


def test_entering_the_backlog_keeps_the_armed_trigger() -> None:
    """A change that would make the next trigger later leaves the armed one; the longer interval rules after it (I2)."""
    made = scheduler(1000, in_backlog=False)
    made.set_backlog("live", True, 50)
    assert made.next_trigger_ms() == INTERVAL_MS
    take(made, INTERVAL_MS)
    assert made.next_trigger_ms() == INTERVAL_MS + 1000


def test_checkpoint_armed_before_the_backlog_does_not_fire_in_it() -> None:
    """Under interval 0 the trigger that was armed before the backlog began stays silent until its end (I3)."""
    made = scheduler(0, in_backlog=False)
    made.set_backlog("live", True, 99)
    assert not made.due(INTERVAL_MS)
    assert not made.due(10**6)


def test_the_switch_takes_a_checkpoint_at_once() -> None:
    """The end of the backlog under interval 0 makes a checkpoint due at that very moment (I4)."""
    made = scheduler(0)
    made.set_backlog("live", False, 7)
    assert made.due(7)


def test_periodic_checkpoints_follow_from_the_switch() -> None:
    """After the immediate checkpoint the next one is due one base interval later (I4)."""
    made = scheduler(0)
    made.set_backlog("live", False, 7)
    take(made, 7)
    assert not made.due(7)
    assert made.next_trigger_ms() == 7 + INTERVAL_MS


def test_one_of_two_sources_in_backlog_is_backlog() -> None:
    """With one of two sources switched the backlog interval still rules; with both, the base one (I5, X11)."""
    made = scheduler(0, "history", "live")
    made.set_backlog("history", False, 5)
    assert made.next_trigger_ms() is None
    assert not made.due(10**6)
    made.set_backlog("live", False, 10)
    assert made.due(10)
    assert made.effective_interval_ms == INTERVAL_MS


def test_a_source_at_its_end_is_out_of_backlog() -> None:
    """A source that reaches its end while in backlog counts as switched (I6)."""
    made = scheduler(0, "history", "live")
    made.source_ended("history", 1)
    assert not made.due(1)
    made.set_backlog("live", False, 2)
    assert made.due(2)


def test_end_of_all_sources_takes_the_final_checkpoint() -> None:
    """When all sources have ended a checkpoint is due at once, whatever the intervals say (I7)."""
    made = scheduler(1000, "history", "live", in_backlog=False)
    made.source_ended("history", 1)
    assert not made.due(1)
    made.source_ended("live", 2)
    assert made.due(2)


def test_request_in_the_backlog_waits_for_the_switch() -> None:
    """A checkpoint asked for in the backlog under interval 0 is taken at the switch, not before (I8)."""
    made = scheduler(0)
    made.request()
    assert not made.due(10**6)
    made.set_backlog("live", False, 10**6)
    assert made.due(10**6)


def test_request_is_served_at_once_elsewhere() -> None:
    """A checkpoint asked for outside of a backlog, or under an interval > 0, is due at once, and once (I8)."""
    for made in (scheduler(0, in_backlog=False), scheduler(INTERVAL_MS)):
        made.request()
        assert made.due(1)
        take(made, 1)
        assert not made.due(1)


def test_going_back_into_backlog_before_the_checkpoint_cancels_it() -> None:
    """A switch whose checkpoint was not taken yet does not take it inside the next backlog (I3, X6)."""
    made = scheduler(0)
    made.set_backlog("live", False, 10)
    made.set_backlog("live", True, 10)
    assert not made.due(10**6)


def test_repeated_reports_change_nothing() -> None:
    """A source that reports the same isBacklog again neither re-arms nor asks for a checkpoint."""
    made = scheduler(0, in_backlog=False)
    made.set_backlog("live", False, 90)
    assert made.next_trigger_ms() == INTERVAL_MS
    assert not made.due(90)


def test_minimum_pause_delays_the_periodic_trigger() -> None:
    """A periodic checkpoint waits until the minimum pause after the end of the one before is over."""
    made = scheduler(0, in_backlog=False, pause_ms=60)
    made.triggered(100)
    made.ended_checkpoint(190)
    assert made.next_trigger_ms() == 250
    assert not made.due(249)
    assert made.due(250)


class SchedulerMachine(RuleBasedStateMachine):
    """Random lives of a scheduler beside a model that knows only which sources are in backlog."""

    SOURCES = ("a", "b", "c")

    @initialize(
        interval_ms=st.integers(1, 50), factor=st.sampled_from([0, 1, 2, 10]), pause_ms=st.sampled_from([0, 0, 30])
    )
    def start(self, interval_ms: int, factor: int, pause_ms: int) -> None:
        self.now_ms = 0
        self.made = CheckpointScheduler(
            interval_ms, interval_ms * factor, pause_ms, self.now_ms, frozenset(self.SOURCES)
        )
        self.silent = factor == 0
        self.backlog: set[str] = set()
        self.ended: set[str] = set()

    @rule(step_ms=st.integers(0, 60))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms

    @rule(source=st.sampled_from(SOURCES))
    def enters_backlog(self, source: str) -> None:
        """The armed trigger never moves when a backlog begins."""
        if source in self.ended:
            return
        before = self.made.next_trigger_ms()
        self.made.set_backlog(source, True, self.now_ms)
        self.backlog.add(source)
        assert self.made.next_trigger_ms() in ({None} if self.silent else {before})

    @rule(source=st.sampled_from(SOURCES))
    def leaves_backlog(self, source: str) -> None:
        """The last one to leave makes a checkpoint due at once under interval 0, and re-arms only to earlier."""
        before, was_backlog = self.made.next_trigger_ms(), bool(self.backlog)
        self.backlog.discard(source)
        self.made.set_backlog(source, False, self.now_ms)
        self._check_left(before, was_backlog)

    @rule(source=st.sampled_from(SOURCES))
    def reaches_its_end(self, source: str) -> None:
        before, was_backlog = self.made.next_trigger_ms(), bool(self.backlog)
        self.backlog.discard(source)
        self.ended.add(source)
        self.made.source_ended(source, self.now_ms)
        self._check_left(before, was_backlog)
        if len(self.ended) == len(self.SOURCES):
            assert self.made.due(self.now_ms)

    def _check_left(self, before: int | None, was_backlog: bool) -> None:
        after = self.made.next_trigger_ms()
        if was_backlog and not self.backlog and self.silent:
            assert self.made.due(self.now_ms)
        if before is not None:
            assert after is not None and after <= before

    @rule()
    def somebody_asks(self) -> None:
        self.made.request()
        assert self.made.due(self.now_ms) or (self.silent and self.backlog)

    @precondition(lambda self: self.made.due(self.now_ms))
    @rule(takes_ms=st.integers(0, 40))
    def checkpoint(self, takes_ms: int) -> None:
        """A checkpoint that was taken is not due again before an interval and the pause have passed."""
        self.made.triggered(self.now_ms)
        armed_ms = self.now_ms + (self.made.effective_interval_ms or self.made.interval_ms)
        self.now_ms += takes_ms
        self.made.ended_checkpoint(self.now_ms)
        expected = max(armed_ms, self.now_ms + self.made.min_pause_ms)
        assert self.made.next_trigger_ms() in ({None} if self.silent and self.backlog else {expected})

    @invariant()
    def no_checkpoint_in_a_silent_backlog(self) -> None:
        if self.silent and self.backlog:
            assert not self.made.due(self.now_ms)
            assert not self.made.due(self.now_ms + 10**9)

    @invariant()
    def a_trigger_is_armed_everywhere_else(self) -> None:
        if not (self.silent and self.backlog):
            armed_ms = self.made.next_trigger_ms()
            assert armed_ms is not None and self.made.due(armed_ms)


TestSchedulerMachine = SchedulerMachine.TestCase
