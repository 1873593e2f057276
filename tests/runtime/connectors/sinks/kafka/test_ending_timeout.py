"""A query that is to stop waits for what it sends as long as brokers answer."""

from __future__ import annotations

import threading

import pytest
from mixedmode.runtime.connectors.sinks.kafka import ending_timeout as module
from mixedmode.runtime.connectors.sinks.kafka.ending_timeout import Patience, SendAbandoned


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.001)


def test_what_is_done_is_done_and_what_fails_is_raised() -> None:
    """Nobody asks the brokers anything while nobody wants to stop."""

    def asked() -> str:
        raise AssertionError

    patience, done = Patience(None, asked), []
    patience.until_done(lambda: done.append(threading.current_thread()), cancel=asked)
    assert len(done) == 1 and done[0] is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        Patience(threading.Event(), asked).until_done(lambda: [][1 // 0], cancel=asked)  # type: ignore[arg-type]


def test_a_stop_waits_for_brokers_that_answer() -> None:
    """One question without an answer is none too many; what is sent meanwhile is sent."""
    stopping, sent = threading.Event(), threading.Event()
    answers = iter([None, "late", None, "late", None, None])

    def silence() -> str | None:
        answer = next(answers, "over")
        if answer == "over":
            sent.set()
            return None
        return answer

    stopping.set()
    Patience(stopping, silence).until_done(lambda: _wait(sent), cancel=lambda: pytest.fail("nothing was to be ended"))


def test_a_stop_gives_up_where_nobody_answers() -> None:
    """Why they do not answer is told, what can be ended is ended, and the thread that is left behind tries no more."""
    stopping, tried, left = threading.Event(), threading.Event(), threading.Event()
    cancelled: list[bool] = []
    patience = Patience(stopping, lambda: "no route")

    def act() -> None:
        try:
            for _ in iter(int, 1):
                tried.set()
                patience.pause(0.001)
        except SendAbandoned:
            left.set()
            raise

    def stop() -> None:
        _wait(tried)
        stopping.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(SendAbandoned, match="no route"):
        patience.until_done(act, cancel=lambda: cancelled.append(True))
    stopper.join()
    _wait(left)
    assert cancelled == [True]


def _wait(event: threading.Event) -> None:
    assert event.wait(60)
