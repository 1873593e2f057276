"""Events are lines of JSON that every version can read."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import pytest
from event_support import common, epoch, phase
from mixedmode.runtime.metrics.events import events
from mixedmode.runtime.metrics.events.event_json import of_line, to_json, to_line
from mixedmode.runtime.metrics.events.events import (
    EVENTS,
    RunEvent,
    ShardTime,
    SourcePosition,
    StageProgress,
    UnknownEvent,
)

SAMPLES: dict[Any, Any] = {str: "text", int: 7, float: 0.5, bool: True, dict[str, int]: {"a": 7}}


def sample(kind: type[RunEvent]) -> RunEvent:
    """An event with something in each field that has no default, and in those that all events have."""
    hints = get_type_hints(kind, vars(events))
    needed = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
    needed += [one.name for one in fields(RunEvent)]
    values = {name: SAMPLES.get(hints[name], None if "None" in str(hints[name]) else "stopped") for name in needed}
    return kind(**{**values, **({"positions": ()} if "positions" in needed else {})})


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS.keys())
def test_a_line_gives_its_event_back(kind: type[RunEvent]) -> None:
    """Every kind of event comes back from its line as it was, and is plain data for everybody else."""
    event = sample(kind)
    assert of_line(to_line(event)) == event
    assert to_line(event).count(b"\n") == 1
    body = json.loads(to_line(event))
    assert (body["v"], body["event"], body["run_id"]) == (1, kind.__name__, "text")
    assert body == to_json(event)


def test_what_is_below_comes_back_too() -> None:
    """Stages, shards and positions of an epoch keep their types; a position may be any JSON."""
    event = epoch(
        3,
        stages=(StageProgress(uid="s", durations_ms={"sort": 3}, slowest=(ShardTime(shard=1, seconds=0.5, rows=9),)),),
        positions=(SourcePosition(name="live", epoch=3, end={"t": {"0": 5}}, lag={"t": {"0": 2}}, lag_messages=2),),
        observed={"seen": {"n": 4}},
    )
    assert of_line(to_line(event)) == event


def test_a_newer_version_stays_readable() -> None:
    """Fields that are not known are skipped; an event that is not known, or of a newer form, keeps all it says."""
    line = json.loads(to_line(phase("live", 5)))
    assert of_line(json.dumps({**line, "more": [1]})) == phase("live", 5)

    for other in ({**line, "event": "Rebalanced", "to": 3}, {**line, "v": 2}, {**line, "phase": {"kind": "live"}}):
        read = of_line(json.dumps(other))
        assert isinstance(read, UnknownEvent)
        assert (read.kind, read.body, read.at_ms) == (other["event"], other, 5)
        assert json.loads(to_line(read)) == other


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'{"v":1,"event":"Pha',
        b"[1]",
        b'{"v":1}',
        b'{"event":7}',
        b'{"v":1,"event":"PhaseBegan","phase":"live"}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_event_is_skipped(line: bytes) -> None:
    """Half a line, or anything else that names no run, is no event and no error."""
    assert of_line(line) is None


def test_numbers_without_json_become_null() -> None:
    """A NaN that somebody has observed does not make the line unreadable."""
    event = epoch(1, observed={"o": {"mean": float("nan")}})
    read = of_line(to_line(event))
    assert isinstance(read, events.EpochApplied)
    assert read.observed == {"o": {"mean": None}}
    assert common(4)["at_ms"] == 4
