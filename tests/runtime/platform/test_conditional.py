"""Requests that are tried again around a library that tries again itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import obstore
import pytest
from mixedmode.runtime.platform import conditional
from mixedmode.runtime.platform.conditional import ConditionalClient
from obstore.exceptions import GenericError
from obstore.store import MemoryStore


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that goes on when somebody sleeps, or a request takes its time."""
    made = SimpleNamespace(now_s=1000.0)

    def sleep(seconds: float) -> None:
        made.now_s += seconds

    monkeypatch.setattr(conditional, "time", SimpleNamespace(monotonic=lambda: made.now_s, sleep=sleep))
    return made


@pytest.mark.parametrize(("takes_s", "at_most_s", "at_least"), [(0.01, 15, 8), (25.0, 60, 2), (30.0, 60, 1)])
@pytest.mark.parametrize("what", ["get", "put"])
def test_a_store_that_does_not_answer_is_waited_for_a_minute(
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    takes_s: float,
    at_most_s: float,
    at_least: int,
    what: str,
) -> None:
    """Quick refusals are many, slow ones few: in all it is a minute, whatever the library does in each attempt."""
    attempts = []

    def refused(*args: Any, **kwargs: Any) -> Any:
        attempts.append(clock.now_s)
        clock.now_s += takes_s
        raise GenericError("not now")

    monkeypatch.setattr(obstore, what, refused)
    client = ConditionalClient(lambda retries: MemoryStore(), "bucket")
    with pytest.raises(OSError, match="bucket/key: not now"):
        _ = client.get("key") if what == "get" else client.put_if_absent("key", b"")
    assert clock.now_s - 1000 <= at_most_s
    assert len(attempts) >= at_least
