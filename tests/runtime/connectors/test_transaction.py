"""The ordinal of a sink's transaction, and the calls in which its rows are handed over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mixedmode.runtime.connectors.sink_calls import calls_of
from mixedmode.runtime.connectors.staging import StagedFile
from mixedmode.runtime.connectors.transaction import SinkTransaction, first_ordinal, next_ordinal

NOW_MS = 1_800_000_000_000
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5_000, 5_000), st.booleans()), max_size=20)


@given(STEPS)
def test_an_ordinal_is_greater_than_all_before_it(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever the clock does from one to the next; and behind an older checkpoint, of which the clock is later."""
    known: int | None = None
    greatest, branch, now_ms = 0, 0, NOW_MS
    for take_overs, later_ms, goes_back in steps:
        branch += take_overs
        if goes_back:  # nobody knows what came since, but time has gone by
            known, now_ms = None, max(now_ms, greatest - first_ordinal(branch)) + 1
        else:
            now_ms += later_ms
        known = next_ordinal(known, branch, now_ms)
        assert known > greatest and first_ordinal(branch) < known < first_ordinal(branch + 1)
        greatest = known


def test_ordinals_fit_into_what_tables_keep_them_in() -> None:
    """64 bits with a sign, for half a million take-overs and five centuries."""
    assert next_ordinal(None, 500_000, 16_000_000_000_000) < 2**63


@given(st.lists(st.integers(1, 6), max_size=12), st.integers(0, 2**40), st.booleans())
def test_each_file_is_in_one_call(epochs: list[int], previous: int, merged: bool) -> None:
    """Calls are in the order of their epochs, with ids behind the last one; merged there is one, if there are rows."""
    files = tuple(StagedFile(f"e{epoch:08d}-s0000-{nth}.parquet", 1, 1) for nth, epoch in enumerate(epochs))
    calls = calls_of(files, previous, merged=merged)
    assert SinkTransaction(id=3, files=files, calls=calls).all_calls == calls
    assert [call.id for call in calls] == [previous + nth for nth, _ in enumerate(calls, start=1)]
    assert [epoch for call in calls for epoch in call.epochs] == sorted(set(epochs))
    assert {file.name for call in calls for file in call.files_of(files)} == {file.name for file in files}
    assert len(calls) == (min(1, len(epochs)) if merged else len(set(epochs)))
