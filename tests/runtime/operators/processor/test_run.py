"""The processor operator over one shard, epoch by epoch, without Spark: timers, watermarks, order, state."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.errors import OutputSchemaError, PlanError, UserCodeError
from mixedmode.runtime.operators.processor.rows.shown_times import END_OF_TIME_MS
from mixedmode.runtime.operators.processor.run import ProcessorRun
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from stage_support import Input, Scripted, Stage, batches


def fired(*timers: tuple[str, int]) -> list[tuple[Any, ...]]:
    return [("fired", key, ms) for key, ms in timers]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# -- timers at the switch ----------------------------------------------------------------------------------------------


def test_the_timer_vector(stage: Stage) -> None:
    """Timers from before, timers of the backlog and timers beyond its watermark fire in the order of FLIP-327 (X2)."""
    stage.stream([("key1", 0, "+1 +2 +3"), ("key2", 0, "+1 +3")])
    assert stage.stream([], 2) == fired(("key1", 1), ("key2", 1), ("key1", 2))
    assert stage.backlog([("key1", 5, "+5"), ("key1", 5, "+4"), ("key2", 5, "+6")], 5) == fired(
        ("key1", 3), ("key1", 4), ("key1", 5), ("key2", 3)
    )
    assert stage.stream([("key1", 6, "+6")], 5) == []
    assert stage.stream([], 6) == fired(("key1", 6), ("key2", 6))


def test_key_without_rows_fires_at_the_switch(stage: Stage) -> None:
    """A key whose timer is from before and that has no row in the backlog fires too, in key order (X3)."""
    stage.stream([(key, 0, "+3") for key in ("a", "c", "e")] + [("d", 0, "+9")])
    assert stage.backlog([("b", 0, "row"), ("c", 0, "row")], 5) == [
        ("fired", "a", 3),
        ("row", "b", None),
        ("row", "c", None),
        ("fired", "c", 3),
        ("fired", "e", 3),
    ]
    assert stage.stream([], 10) == fired(("d", 9))


def test_pass_without_rows_fires_timers(stage: Stage) -> None:
    """The last pass of a backlog that came in several chunks has no rows; it fires what is due (X3)."""
    stage.backlog([("b", 0, "+3 +8"), ("a", 0, "+2")])
    assert stage.backlog([], 5) == fired(("a", 2), ("b", 3))
    assert stage.counters.next_event_timer_ms == 8


def test_backlog_without_watermark_fires_nothing(stage: Stage) -> None:
    """Without any watermark no timer fires at the end of keys; all wait (X7)."""
    assert stage.backlog([("a", None, "+1"), ("b", None, "+2")], MIN_WATERMARK) == []
    assert stage.counters.next_event_timer_ms == 1
    assert stage.stream([], 2) == fired(("a", 1), ("b", 2))


def test_max_fires_every_timer_in_time_order(stage: Stage) -> None:
    """Under MAX_WATERMARK all timers of a key fire at its end, by time, before the next key begins."""
    assert stage.backlog([("b", 0, "+1"), ("a", 0, "+900 +5 +70")], MAX_WATERMARK) == fired(
        ("a", 5), ("a", 70), ("a", 900), ("b", 1)
    )
    assert stage.counters.next_event_timer_ms is None


def test_deleted_timer_does_not_fire(stage: Stage) -> None:
    """A timer that was deleted, in the same pass or a later one, is gone; registering twice is once."""
    stage.backlog([("a", 0, "+1 +2 +3 +3"), ("a", 1, "-2")])
    stage.stream([("a", 2, "-1")])
    assert stage.backlog([], 10) == fired(("a", 3))


@pytest.mark.parametrize("style", ["backlog", "stream"])
def test_timers_can_be_listed(stage: Stage, style: str) -> None:
    """listTimers gives the current key's pending timers in time order, old and new."""
    stage.backlog([("a", 0, "+30 +10"), ("b", 0, "+5")])
    assert getattr(stage, style)([("a", 0, "+20 timers")]) == [("pending", "a", ms) for ms in (10, 20, 30)]


# -- timers that register timers (X13) ---------------------------------------------------------------------------------


def endless(tmp_path: Path) -> Stage:
    return Stage(tmp_path, processor=Scripted({ms: [ms + 1] for ms in range(1, 10)}))


def test_timer_in_a_callback_is_carried_into_the_stream_under_max(tmp_path: Path) -> None:
    """At a switch under MAX a callback's new timer neither fires, so no loop is endless, nor is it lost (X13)."""
    stage = endless(tmp_path)
    assert stage.backlog([("a", 0, "+1"), ("b", 0, "+1")], MAX_WATERMARK) == fired(("a", 1), ("b", 1))
    assert (stage.counters.next_event_timer_ms, stage.counters.timers_ignored) == (2, 0)
    assert stage.stream([], 3) == fired(("a", 2), ("b", 2), ("a", 3), ("b", 3))


def test_timer_in_a_callback_is_ignored_at_the_end_of_input(tmp_path: Path) -> None:
    """At the end of input it is ignored, and counted (X13)."""
    stage = endless(tmp_path)
    fires = stage.backlog([("a", 0, "+1"), ("b", 0, "+1")], MAX_WATERMARK, timers_at_max="ignore")
    assert fires == fired(("a", 1), ("b", 1))
    assert (stage.counters.next_event_timer_ms, stage.counters.timers_ignored) == (None, 2)


def test_timer_in_a_callback_is_ignored_in_batch_mode(tmp_path: Path) -> None:
    """The same holds in batch mode (X13)."""
    assert endless(tmp_path).batch([("a", 0, "+1")]) == fired(("a", 1))


def test_timers_in_rows_of_the_next_key_are_not_ignored(tmp_path: Path) -> None:
    """Ignoring ends with the callbacks of a key: the next key's rows register theirs (X13)."""
    assert endless(tmp_path).batch([("a", 0, "+1"), ("b", 0, "+5")]) == fired(("a", 1), ("b", 5))


def test_what_event_times_have_made_due_fires_before_max(tmp_path: Path) -> None:
    """At the end of input, timers up to the watermark so far fire first, and what they register if due; then MAX."""
    stage = endless(tmp_path)
    stage.stream([("a", 5, "+1")])
    end = {"timers_at_max": "ignore", "reached_watermark_ms": 3}
    assert stage.backlog([], MAX_WATERMARK, **end) == fired(("a", 1), ("a", 2), ("a", 3), ("a", 4))
    assert (stage.counters.next_event_timer_ms, stage.counters.timers_ignored) == (None, 1)


def test_timer_in_a_callback_fires_in_the_same_round_under_observed(tmp_path: Path) -> None:
    """Under the observed watermark a due timer of a callback fires in the same round, one beyond it waits (X13)."""
    stage = endless(tmp_path)
    assert stage.backlog([("a", 0, "+1")], 3) == fired(("a", 1), ("a", 2), ("a", 3))
    assert stage.counters.next_event_timer_ms == 4


def test_timer_in_a_callback_fires_in_the_same_round_in_the_stream(tmp_path: Path) -> None:
    """In streaming a due timer that a callback registers fires in the same epoch, in time order over keys (X13)."""
    stage = endless(tmp_path)
    assert stage.stream([("a", 5, "+1"), ("b", 5, "+2")], 3) == fired(("a", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3))


def test_same_time_registered_in_its_own_callback_is_lost(tmp_path: Path) -> None:
    """A callback that registers its own timestamp again loses it, as in Spark."""
    stage = Stage(tmp_path, processor=Scripted({1: [1]}))
    assert stage.stream([("a", 5, "+1")], 3) == fired(("a", 1))
    assert stage.stream([], 3) == []


# -- what the processor sees -------------------------------------------------------------------------------------------


def test_watermark_is_none_for_rows_and_final_for_timers(tmp_path: Path) -> None:
    """In a backlog a processor sees 0, none yet, for rows and the final watermark for timers (X14)."""
    stage = Stage(tmp_path, processor=Scripted({"w": []}))  # type: ignore[dict-item]
    for final_ms, shown_ms in ((5, 5), (MAX_WATERMARK, END_OF_TIME_MS)):
        assert stage.backlog([("a", 0, "watermark +4")], final_ms) == [
            ("watermark", "a", 0),
            ("fired", "a", 4),
            ("watermark", "a", shown_ms),
        ]


def test_watermark_in_the_stream_is_the_epochs(tmp_path: Path) -> None:
    """In the stream rows and timers of an epoch see the same watermark."""
    stage = Stage(tmp_path, processor=Scripted({"w": []}))  # type: ignore[dict-item]
    assert stage.stream([("a", 9, "watermark +4")], 7) == [
        ("watermark", "a", 7),
        ("fired", "a", 4),
        ("watermark", "a", 7),
    ]


@pytest.mark.parametrize("mode", ["none", "processingTime"])
def test_times_of_other_modes_are_minus_one(tmp_path: Path, mode: str) -> None:
    """Without event time the watermark reads -1; without any time mode so does the processing time."""
    stage = Stage(tmp_path, mode)
    assert stage.stream([("a", 9, "watermark time")], processing_time_ms=123) == [
        ("watermark", "a", -1),
        ("time", "a", 123 if mode == "processingTime" else -1),
    ]


def test_timers_without_a_time_mode_are_refused(tmp_path: Path) -> None:
    """registerTimer under timeMode none is an error that names the mode."""
    with pytest.raises(PlanError, match=r"registerTimer\(\) needs timeMode .*'none'"):
        Stage(tmp_path, "none").stream([("a", 0, "+1")])


# -- processing time (X15) ---------------------------------------------------------------------------------------------


def test_processing_timers_of_batch_mode_fire_at_the_end_of_their_key(tmp_path: Path) -> None:
    """In batch mode processing-time timers fire at the end of their key, however far in the future (X15)."""
    stage = Stage(tmp_path, "processingTime")
    assert stage.batch([("a", 0, f"+{10**15} +5"), ("b", 0, "row")]) == [
        ("fired", "a", 5),
        ("fired", "a", 10**15),
        ("row", "b", None),
    ]


def test_processing_timers_survive_the_switch(tmp_path: Path) -> None:
    """In the backlog of mixed mode they stay pending, even under MAX_WATERMARK, and fire in real time later (X15)."""
    stage = Stage(tmp_path, "processingTime")
    assert stage.backlog([("a", 0, "+5 +50"), ("b", 0, "+6")], MAX_WATERMARK, processing_time_ms=100) == []
    assert stage.counters.next_processing_timer_ms == 5
    assert stage.stream([], processing_time_ms=10, processing_timers_upto_ms=10) == fired(("a", 5), ("b", 6))
    assert stage.counters.next_processing_timer_ms == 50


# -- keys and order (X4, X8) -------------------------------------------------------------------------------------------


def test_equal_keys_are_one_key(stage: Stage) -> None:
    """Keys that are equal but come in other batches, epochs and styles share one state (X4)."""
    assert stage.backlog([("a", n, "count") for n in range(5)], batch_rows=2)[-1] == ("count", "a", 5)
    assert stage.stream([("".join(["a"]), 9, "count")]) == [("count", "a", 6)]


def test_order_of_keys_and_rows(stage: Stage) -> None:
    """Keys come by their bytes, nulls first and prefixes before longer ones; a key's rows by event time (X8)."""
    keys = ["b", "", "aa", None, "a", "a\x00", "é"]
    rows: list[Input] = [(key, ms, f"at{ms}") for ms in (3, 1, 2) for key in keys]
    expected = [(f"at{ms}", key, None) for key in [None, "", "a", "a\x00", "aa", "b", "é"] for ms in (1, 2, 3)]
    assert stage.backlog(rows, 0) == expected
    assert stage.stream(rows) == expected


def test_state_is_forgotten_in_batch_mode(stage: Stage) -> None:
    """Batch mode leaves no state: neither files nor counts that a later pass would see."""
    assert stage.batch([("a", 0, "count count"), ("b", 0, "count")]) == [
        ("count", "a", 1),
        ("count", "a", 2),
        ("count", "b", 1),
    ]
    assert stage._lineage.files == ()
    assert stage.batch([("a", 0, "count")]) == [("count", "a", 1)]


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_huge_key_streams_through(tmp_path: Path, style: str) -> None:
    """A key with half of all rows reaches its handler one input batch at a time, never all at once."""
    pulled: list[int] = []
    ahead: list[tuple[str, int]] = []

    class Counting(Scripted):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
            for _ in rows:
                ahead.append((key[0], len(pulled)))
            yield ("done", key[0], len(ahead))

    def source() -> Iterator[pa.RecordBatch]:
        for batch in batches([("a", 0, "row")] * 150 + [("huge", 0, "row")] * 1000 + [("z", 0, "row")] * 850, 100):
            pulled.append(batch.num_rows)
            yield batch

    stage = Stage(tmp_path)
    # The very processor, not a pickled copy of it.
    stage.operator.run = lambda context, rows: ProcessorRun(stage.operator, Counting(), context).execute(rows)  # type: ignore[method-assign]
    assert stage.run([], style, source=source()) == [("done", "a", 150), ("done", "huge", 1150), ("done", "z", 2000)]
    assert ahead == [(key, row // 100 + 1) for row, key in enumerate(["a"] * 150 + ["huge"] * 1000 + ["z"] * 850)]


# -- late rows (X17) ---------------------------------------------------------------------------------------------------


def test_nothing_in_the_backlog_is_late(stage: Stage) -> None:
    """However far behind a row of the backlog is, it is handled (X17)."""
    rows: list[Input] = [("a", 10**9, "row"), ("a", -(10**9), "row"), ("a", None, "row")]
    assert len(stage.backlog(rows, 10**9)) == 3
    assert stage.counters.rows_late == 0


def test_late_rows_of_the_stream_are_dropped_and_counted(stage: Stage) -> None:
    """Strictly behind the watermark is late; at the watermark, and without a time, is not (X17)."""
    assert stage.stream([("a", 4, "late"), ("a", 5, "intime"), ("b", None, "timeless")], 5) == [
        ("intime", "a", None),
        ("timeless", "b", None),
    ]
    assert (stage.counters.rows_in, stage.counters.rows_late) == (3, 1)


def test_late_rows_are_kept_without_event_time(tmp_path: Path) -> None:
    """A processor that does not use event time sees every row, as in Spark."""
    assert Stage(tmp_path, "none").stream([("a", 1, "row")], 5) == [("row", "a", None)]


def test_greatest_event_time_leaves_late_rows_out(stage: Stage) -> None:
    """The report carries the greatest event time of the rows that count; None if there was none."""
    stage.stream([("a", 7, "x"), ("b", 9, "x")], 8)
    assert stage.counters.max_event_time_ms == 9
    stage.stream([("a", None, "x")])
    assert stage.counters.max_event_time_ms is None


# -- errors ------------------------------------------------------------------------------------------------------------


def test_row_that_does_not_fit_names_field_value_and_key(tmp_path: Path) -> None:
    """An output row of a wrong type is refused naming field, value and the key whose handler yielded it."""

    class Wrong(Scripted):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
            yield ("x", key[0], "soon" if key[0] == "b" else 1)

    stage = Stage(tmp_path, processor=Wrong())
    with pytest.raises(OutputSchemaError, match=r"field 'at'.*yielded 'soon' \(str\) for key \('b',\)"):
        stage.stream([("a", 0, "x"), ("b", 0, "x")])


def test_processor_is_closed_also_after_an_error(tmp_path: Path) -> None:
    """close() is called at the end of each task, and when a handler raises."""
    closed = tmp_path / "closed"

    class Closing(Scripted):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
            raise ZeroDivisionError

        def close(self) -> None:
            with closed.open("a") as file:
                file.write("x")

    stage = Stage(tmp_path, processor=Closing())
    closed.unlink()  # the copy on the driver was closed after its init
    with pytest.raises(
        UserCodeError, match=r"(?s)in handleInputRows: raise ZeroDivisionError\nZeroDivisionError\n.*'a'"
    ):
        stage.stream([("a", 0, "x")])
    assert closed.read_text() == "x"


def test_use_of_state_in_init_is_refused(tmp_path: Path) -> None:
    """init() has no current key: state and timers cannot be used in it."""

    class Eager(Scripted):
        def init(self, handle: Any) -> None:
            super().init(handle)
            self._count.update((1,))

    class Timed(Scripted):
        def init(self, handle: Any) -> None:
            handle.registerTimer(1)

    for processor in (Eager(), Timed()):
        with pytest.raises(PlanError, match=r"in init\(\): there is no current key"):
            Stage(tmp_path, processor=processor)


# -- the two styles agree ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=20)
@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 40)), min_size=1, max_size=25),
    cuts=st.lists(st.integers(0, 25), max_size=3),
    seed=st.integers(0, 5),
)
def test_sorted_and_random_agree(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], cuts: list[int], seed: int
) -> None:
    """However rows are cut into sorted passes and micro-batches, the results are the same (X9)."""
    rows = sorted(rows, key=lambda row: row[1])
    inputs: list[Input] = [(key, ms, f"count +{ms + 10}") for key, ms in rows]
    places = [0, *sorted(min(cut, len(inputs)) for cut in cuts), len(inputs)]
    chance = random.Random(seed)

    def outcome(styles: list[str]) -> list[tuple[Any, ...]]:
        stage, found, watermark_ms = Stage(tmp_path_factory.mktemp("stage")), [], MIN_WATERMARK
        for index, style in enumerate(styles):
            part = inputs[places[index] : places[index + 1]]
            reached_ms = max([watermark_ms, *(row[1] for row in part if row[1] is not None)])
            if style == "backlog":
                found += stage.backlog(part, reached_ms)
            else:
                found += stage.stream(part, watermark_ms) + stage.stream([], reached_ms)
            watermark_ms = reached_ms
        return sorted(found + stage.backlog([], MAX_WATERMARK), key=repr)

    slices = len(places) - 1
    mixed = [chance.choice(["backlog", "stream"]) for _ in range(slices)]
    assert outcome(["backlog"] * slices) == outcome(["stream"] * slices) == outcome(mixed)


# -- the end of input --------------------------------------------------------------------------------------------------


class Hooked(Scripted):
    """Has something to say when its input ends."""

    def endInput(self) -> Iterator[tuple[Any, ...]]:
        yield ("endInput", None, None)

    def finish(self) -> Iterator[tuple[Any, ...]]:
        yield ("finish", None, None)


class Traced(Scripted):
    """Says in the end what has been called on it."""

    calls: tuple[str, ...] = ()

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.calls += ("init",)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        self.calls += ("handleInputRows",)
        yield from super().handleInputRows(key, rows, timerValues)

    def endInput(self) -> Iterator[tuple[Any, ...]]:
        self.calls += ("endInput",)
        yield ("calls", " ".join(self.calls), None)

    def finish(self) -> Iterator[tuple[Any, ...]]:
        yield ("calls", " ".join(self.calls), None)


class Helpful(Scripted):
    """Has a helper that happens to be called like a hook."""

    def finish(self, what: str) -> str:
        return what


class Curious(Scripted):
    """Looks at state when there is no key."""

    def endInput(self) -> None:
        self._count.get()


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_end_hooks_are_called_in_the_last_epoch_only(tmp_path: Path, style: str) -> None:
    """endInput() and finish() come in this order, in the epoch that ends the input; state and timers stay."""
    stage = Stage(tmp_path, processor=Hooked())
    assert stage.operator.has_end_hooks
    assert stage.run([("a", 1, "count +50")], style) == [("count", "a", 1)]
    assert stage.run([], "random", ending=True) == [("endInput", None, None), ("finish", None, None)]
    assert stage.counters.next_event_timer_ms == 50
    assert stage.stream([("a", 2, "count")]) == [("count", "a", 2)]


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_end_hooks_have_an_instance_of_their_own(tmp_path: Path, style: str) -> None:
    """Both hooks are called on one new instance after its init(): what handlers have set before is not on it."""
    stage = Stage(tmp_path, processor=Traced())
    stage.run([("a", 1, "count")], style)
    assert stage.run([], style, ending=True) == [("calls", "init endInput", None)] * 2


def test_end_hooks_without_state(tmp_path: Path) -> None:
    """A shard that never had a row calls them too, also where no state is kept."""
    stage = Stage(tmp_path, processor=Hooked())
    assert stage.run([], "sorted", ending=True, keep_state=False) == [("endInput", None, None), ("finish", None, None)]


def test_method_with_parameters_is_no_hook(tmp_path: Path) -> None:
    """A processor's own method of a hook's name that wants arguments is left alone."""
    stage = Stage(tmp_path, processor=Helpful())
    assert not stage.operator.has_end_hooks
    assert stage.run([], "random", ending=True) == []


@pytest.mark.parametrize("style", ["sorted", "random"])
def test_state_in_an_end_hook_is_refused(tmp_path: Path, style: str) -> None:
    """There is no current key when the input has ended: an error says where state may be used."""
    stage = Stage(tmp_path, processor=Curious())
    stage.backlog([("a", 1, "count")])
    with pytest.raises(PlanError, match=r"without a current key; .* endInput\(\)"):
        stage.run([], style, ending=True)
