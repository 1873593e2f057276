"""``handleArrowRows``: blocks of keys give what one key after the other does, over the same state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import stage_support
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mixedmode.errors import OutputSchemaError, PlanError, StateSchemaError, UserCodeError
from mixedmode.runtime.operators.processor import run
from mixedmode.runtime.operators.processor.blocks import block_state, key_block
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import DecimalType, StringType, StructType, TimestampType
from stage_support import COUNT, EPOCH, Input, Stage, batches

_LAST = StructType().add("ts", TimestampType()).add("cents", DecimalType(10, 2))
_NOTE = StructType().add("text", StringType())
_LAPSE_MS = 10


class ByKey(StatefulProcessor):
    """Counts a key's rows, remembers the last one's time, notes a letter for each, and says so when the key has been
    silent for a while.

    One that has counted five rows in a call forgets them at once.
    """

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", COUNT)
        self._last = handle.getValueState("last", _LAST)
        self._note = handle.getValueState("note", _NOTE)
        self._log = handle.getListState("log", COUNT)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        before = (self._count.get() or (0,))[0]
        times = [row.ts for row in rows]
        told = self._last.get()
        if told is not None:
            self._handle.deleteTimer(_ms(told[0]) + _LAPSE_MS)
        self._last.update((times[-1], None))
        self._note.update(((self._note.get() or ("",))[0] + key[0] * len(times),))
        self._handle.registerTimer(_ms(times[-1]) + _LAPSE_MS)
        if len(times) == 5:
            self._count.clear()
        else:
            self._count.update((before + len(times),))
        yield ("seen", key[0], before + len(times))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        self._log.appendValue((1,))
        noted = len(self._note.get()[0]) * 1_000_000
        yield ("silent", key[0], noted + (self._count.get() or (0,))[0] * 1_000 + len(list(self._log.get())))
        self._count.clear()
        self._last.clear()


class InBlocks(ByKey):
    """The same, many keys at once."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        raise AssertionError("rows come in blocks")

    def handleArrowRows(self, block: Any, timerValues: Any) -> Iterator[pa.RecordBatch]:
        assert block.rows.column_names == ["key", "ts", "does"]
        assert block.rows["key"].equals(block.keys["key"].take(pa.array(block.key_of_row)))
        count, last = block.value("count"), block.value("last")
        added = np.diff(block.starts)
        before = count.get().field("n").fill_null(0).to_numpy()
        times = block.rows["ts"].take(pa.array(block.starts[1:] - 1))
        note = block.value("note")
        added_text = pc.binary_repeat(block.keys["key"], pa.array(added))
        note.update({"text": pc.binary_join_element_wise(note.get().field("text").fill_null(""), added_text, "")})
        block.deleteTimers(pc.add(last.get().field("ts").cast(pa.timestamp("ms", "UTC")).view(pa.int64()), _LAPSE_MS))
        last.update({"ts": times, "cents": pa.nulls(len(block), pa.decimal128(10, 2))})
        block.registerTimers(pc.add(times.cast(pa.timestamp("ms", "UTC")).view(pa.int64()), _LAPSE_MS))
        count.update(pa.record_batch({"n": before + added}), where=added != 5)
        count.clear(where=added == 5)
        assert count.get().is_null().to_numpy(zero_copy_only=False).tolist() == (added == 5).tolist()
        said = pa.array(["seen"] * len(block))
        yield pa.record_batch({"at": before + added, "key": block.keys["key"], "what": said})


def _ms(moment: Any) -> int:
    return round((moment - EPOCH.replace(tzinfo=None)).total_seconds() * 1000)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 60)), min_size=1, max_size=40),
    cuts=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["backlog", "stream"])), max_size=4),
    batch_rows=st.integers(1, 12),
    block_rows=st.sampled_from([1, 7, 65_536]),
    state_bytes=st.sampled_from([1, 30, 1 << 20]),
)
def test_blocks_give_what_one_key_after_the_other_does(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int]],
    cuts: list[tuple[int, str]],
    batch_rows: int,
    block_rows: int,
    state_bytes: int,
) -> None:
    """In sorted passes and live epochs, with timers between, one after the other over the same state, which is the same
    to the byte; and the two forms take over from each other."""
    inputs: list[Input] = [(key, ms, "") for key, ms in sorted(rows, key=lambda row: row[1])]
    places = [0, *sorted(min(place, len(inputs)) for place, _ in cuts), len(inputs)]
    styles = [style for _, style in cuts] + ["backlog"]

    def outcome(processors: list[StatefulProcessor]) -> list[Any]:
        found, watermark_ms, stage = [], MIN_WATERMARK, None
        folder = tmp_path_factory.mktemp("stage")
        for index, style in enumerate(styles):
            following = Stage(folder, processor=processors[index % len(processors)])
            if stage is not None:
                following.take_over(stage)
            stage = following
            part = inputs[places[index] : places[index + 1]]
            reached_ms = max([watermark_ms, *(row[1] for row in part if row[1] is not None)])
            watermarks = {"watermark_ms": watermark_ms, "firing_watermark_ms": reached_ms}
            access = "sorted" if style == "backlog" else "random"
            found.append(sorted(stage.run([], access, source=in_groups(part, batch_rows), **watermarks)))
            found.append(stage.stored())
            found.append((stage.counters.keys, stage.counters.timers_fired, stage.counters.next_event_timer_ms))
            watermark_ms = reached_ms
        assert stage is not None
        return [*found, sorted(stage.backlog([], MAX_WATERMARK))]

    one_by_one = outcome([ByKey()])
    with (
        mock.patch.object(run, "_BLOCK_ROWS", block_rows),
        mock.patch.object(block_state, "_BUDGET_BYTES", state_bytes),
    ):
        assert outcome([InBlocks()]) == one_by_one
        assert outcome([InBlocks(), ByKey()]) == one_by_one


def in_groups(rows: list[Input], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Rows as Spark hands them over, their keys in three key groups."""
    for batch in batches(rows, batch_rows):
        groups = [{"a": 3, "b": 7, "c": 7}.get(key, 100) for key in batch["key"].to_pylist()]
        yield batch.set_column(0, batch.schema.field(0), pa.array(groups, pa.int32()))


class Alarms(StatefulProcessor):
    """Sets timers as told, many in a call."""

    def init(self, handle: Any) -> None:
        self._handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            for command in row.does.split():
                (self._handle.registerTimer if command[0] == "+" else self._handle.deleteTimer)(int(command[1:]))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[tuple[Any, ...]]:
        yield ("fired", key[0], expiredTimerInfo.getExpiryTimeInMs())


class AlarmsInBlocks(Alarms):
    """The same by column, one call for the first command of each key, one for the second and so on."""

    def handleArrowRows(self, block: Any, timerValues: Any) -> None:
        rows = block.rows["does"].to_pylist()
        told = [" ".join(rows[start:stop]).split() for start, stop in zip(block.starts, block.starts[1:], strict=False)]
        for at in range(max(map(len, told))):
            commands = [one[at] if at < len(one) else None for one in told]
            for sign, call in (("+", block.registerTimers), ("-", block.deleteTimers)):
                times = [int(one[1:]) if one is not None and one[0] == sign else None for one in commands]
                call(pa.array(times, pa.int64()))


@settings(max_examples=30)
@example(epochs=[("sorted", {"b": [("+", 1), ("+", 12)], "c": [], "d": [], "e": []}, 5)], mode="eventTime")
@given(
    epochs=st.lists(
        st.tuples(
            st.sampled_from(["sorted", "random"]),
            st.dictionaries(
                st.sampled_from("bcde"),
                st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 12)), max_size=5),
            ),
            st.integers(0, 12),
        ),
        min_size=1,
        max_size=4,
    ),
    mode=st.sampled_from(["eventTime", "processingTime"]),
)
def test_timers_by_column_are_those_of_single_keys(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[Any], mode: str
) -> None:
    """Those that are due fire, those that are not stay, in cells and index as they would one key at a time; of several
    calls for one timer the last one counts."""

    def outcome(processor: StatefulProcessor) -> list[Any]:
        stage, found = Stage(tmp_path_factory.mktemp("stage"), mode, processor), []
        for access, alarms, reached_ms in epochs:
            inputs = [(key, None, " ".join(f"{sign}{ms}" for sign, ms in told)) for key, told in alarms.items()]
            reached = "firing_watermark_ms" if mode == "eventTime" else "processing_timers_upto_ms"
            found.append(sorted(stage.run([], access, source=in_groups(inputs, 2), **{reached: reached_ms})))
            found.append(stage.stored())
            counters = stage.counters
            found.append((counters.next_event_timer_ms, counters.next_processing_timer_ms, counters.timers_fired))
        return found

    assert outcome(AlarmsInBlocks()) == outcome(Alarms())


def test_values_with_a_time_to_live_expire_in_blocks_too(tmp_path: Any) -> None:
    """By the processing time of the epoch; what is updated lives on."""

    class Fading(InBlocks):
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", COUNT, ttlDurationMs=100)

        def handleArrowRows(self, block: Any, timerValues: Any) -> pa.RecordBatch:
            count = block.value("count")
            n = pc.add(count.get().field("n").fill_null(0), pa.array(np.diff(block.starts)))
            count.update({"n": n})
            return pa.record_batch({"what": pa.array(["seen"] * len(block)), "key": block.keys["key"], "at": n})

    stage = Stage(tmp_path, "processingTime", Fading())
    assert stage.stream([("a", 1, ""), ("b", 1, "")], processing_time_ms=0) == [("seen", "a", 1), ("seen", "b", 1)]
    assert stage.backlog([("a", 2, "")], processing_time_ms=99) == [("seen", "a", 2)]
    assert stage.stream([("a", 3, ""), ("b", 3, "")], processing_time_ms=150) == [("seen", "a", 3), ("seen", "b", 1)]


@pytest.mark.parametrize(
    ("handler", "error", "words"),
    [
        (lambda self, block, times: block.value("log"), StateSchemaError, "list state"),
        (lambda self, block, times: block.value("count").update({"m": [1]}), StateSchemaError, "'n' is missing"),
        (
            lambda self, block, times: block.value("count").update({"n": ["x"]}),
            StateSchemaError,
            "'n' of state 'count'",
        ),
        (lambda self, block, times: block.value("count").update({"n": [1, 2]}), StateSchemaError, "1 keys, got 2"),
        (
            lambda self, block, times: block.value("count").update(block.value("count").get()),
            StateSchemaError,
            "values that are null",
        ),
        (
            lambda self, block, times: block.registerTimers(block.rows["ts"]),
            StateSchemaError,
            "because its unit is unknown",
        ),
        (
            lambda self, block, times: block.value("last").update(
                {"ts": [EPOCH.replace(tzinfo=None)], "cents": [None]}
            ),
            StateSchemaError,
            "datetimes without a time zone",
        ),
        *[
            (
                lambda self, block, times, column=column: block.value("count").update({"n": column}),
                StateSchemaError,
                f"field 'n' of state 'count' takes int64, one for each key, got {told}",
            )
            for column, told in (
                (pa.array([True]), "bool (True, …): bool is not cast to int64"),
                (pa.array(["5"]), "string ('5', …): string is not cast to int64"),
                (pa.array([2.0]), "double (2.0, …): double is not cast to int64"),
                (np.array([2.0]), "float64 (2.0, …): double is not cast to int64"),
                (pa.array([2**63], pa.uint64()), "uint64 (9223372036854775808, …): Integer value 9223372036854775808"),
            )
        ],
        (
            lambda self, block, times: block.value("count").update({"n": [1], "m": [2]}),
            StateSchemaError,
            "got columns n, m; 'm' is no field of it: its fields are n",
        ),
        (
            lambda self, block, times: block.value("count").update({"n": [1]}, where=[0]),
            StateSchemaError,
            "where takes a bool for each key (not their numbers), got list (0, …)",
        ),
        (
            lambda self, block, times: block.value("note").update({"text": pa.array([5])}),
            StateSchemaError,
            "field 'text' of state 'note' takes string, one for each key, got int64 (5, …)",
        ),
        (lambda self, block, times: block.value("count").update([1]), StateSchemaError, "dict of columns"),
        *[
            (
                lambda self, block, times, at=at: pa.record_batch(
                    {"what": pa.array(["x"]), "key": block.keys["key"], "at": at}
                ),
                OutputSchemaError,
                f"field 'at' of the output schema is int64, but handleArrowRows yielded {told}",
            )
            for at, told in ((pa.array(["5"]), "string ('5', …)"), (pa.array([2.0]), "double ('2.0', …)"))
        ],
        (lambda self, block, times: self._count.get(), PlanError, "without a current key"),
        (lambda self, block, times: self._handle.registerTimer(5), PlanError, "without a current key"),
        (lambda self, block, times: ["row"], OutputSchemaError, "RecordBatches or Tables"),
        (lambda self, block, times: block.keys, OutputSchemaError, "what, key, at"),
        (lambda self, block, times: 1 / 0, UserCodeError, "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("style", ["sorted", "random"])
def test_a_misuse_is_said_with_the_handlers_name(
    tmp_path: Any, handler: Any, error: type[Exception], words: str, style: str
) -> None:
    """State, timers and output of a block are checked, and errors of user code say where they are from."""
    made = type("Wrong", (ByKey,), {"handleArrowRows": handler})
    with pytest.raises(error) as caught:
        Stage(tmp_path, processor=made()).run([("a", 1, "")], style)
    assert words in str(caught.value)
    assert "handleArrowRows" in str(caught.value)


def test_a_block_is_over_when_its_handler_is(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of one for later is refused."""
    monkeypatch.setattr(stage_support, "KEPT", [], raising=False)

    class Keeping(InBlocks):
        def handleArrowRows(self, block: Any, timerValues: Any) -> None:
            import stage_support

            stage_support.KEPT.append(block)

    Stage(tmp_path, processor=Keeping()).stream([("a", 1, "")])
    (block,) = stage_support.KEPT
    for use in (lambda: block.value("count"), lambda: block.registerTimers([1])):
        with pytest.raises(PlanError, match="after its handleArrowRows had ended"):
            use()


def test_state_that_no_array_can_hold_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler sets is written as one array, of each state and of all."""

    def noting(self: Any, block: Any, times: Any) -> None:
        block.value("note").update({"text": ["x" * 600]})
        block.value("note").update({"text": ["y"]}, where=[True])
        block.value("count").update({"n": [1]})

    made = type("Noting", (ByKey,), {"handleArrowRows": noting})
    monkeypatch.setattr(key_block, "MOST_BYTES", 700)
    Stage(tmp_path / "fits", processor=made()).stream([("a", 1, "")])
    monkeypatch.setattr(key_block, "MOST_BYTES", 600)
    with pytest.raises(StateSchemaError, match=r"(?s)state 'note' with its changes takes .*handleArrowRows"):
        Stage(tmp_path / "changed", processor=made()).stream([("a", 1, "")])
    monkeypatch.setattr(key_block, "MOST_BYTES", 10)

    def setting(self: Any, block: Any, times: Any) -> None:
        block.value("note").update({"text": ["longer"]})

    made = type("Setting", (ByKey,), {"handleArrowRows": setting})
    with pytest.raises(StateSchemaError, match="handleArrowRows has set takes"):
        Stage(tmp_path / "set", processor=made()).stream([("a", 1, "")])
