"""Requests that are tried again around a library that tries again itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import obstore
import pytest
from mixedmode.runtime.storage import conditional
from mixedmode.runtime.storage.conditional import ConditionalClient
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError
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
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Quick refusals are many, slow ones few: in all it is a minute, whatever the library does in each attempt; each
    further attempt is logged at INFO."""
    caplog.set_level("INFO", "mixedmode")
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
    said = [record.getMessage() for record in caplog.records if "again: not now" in record.getMessage()]
    assert len(said) == len(attempts) - 1 and all("bucket/key" in one for one in said)


@pytest.mark.parametrize("refusal", [AlreadyExistsError, PreconditionError])
def test_refusal_while_nothing_has_changed_is_tried_again(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]
) -> None:
    """S3 answers 409 while another request for the file is in hand: nobody else has written it by that."""
    attempts, put = [], obstore.put

    def in_conflict(*args: Any, **kwargs: Any) -> Any:
        attempts.append(clock.now_s)
        if len(attempts) % 3:
            raise refusal("409 Conflict")
        kwargs.pop("attributes")
        return put(*args, **kwargs)

    store = MemoryStore()
    client = ConditionalClient(lambda retries: store, "bucket")
    monkeypatch.setattr(obstore, "put", in_conflict)
    first = client.swap("key", None, b"1")
    assert first is not None and len(attempts) == 3
    second = client.swap("key", first, b"2")
    assert second is not None and len(attempts) == 6
    assert client.swap("key", first, b"3") is None and len(attempts) == 7, "somebody has written it meanwhile"
