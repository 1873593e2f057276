"""Turns of the live source's micro-batches: nothing follows a step that has failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mixedmode.runtime.connectors.sources.live_query import BatchNotTaken, LiveSource
from pyspark import RDD

#: All that is looked at of a micro-batch.
FRAME: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None)), schema=None)


class Turn:
    """A lock that tells when it is given back."""

    def __init__(self, given_back: Callable[[], None]) -> None:
        self._given_back = given_back

    def acquire(self, timeout: float) -> bool:
        return True

    def release(self) -> None:
        self._given_back()


def source(turn: Any) -> LiveSource:
    """One that takes micro-batches as if its query had been started."""
    made = LiveSource(cast(Any, None), cast(Any, None), "spark", None, turn, threading.Event())
    made._hidden = cast(Any, SimpleNamespace(session=None))
    return made


def test_a_failed_batch_is_known_before_its_turn_ends() -> None:
    """Whoever has the next turn sees that the job has failed, and takes no checkpoint of what is half done."""
    known: list[bool] = []
    live = source(Turn(lambda: known.append(live.failed)))

    def fail(frame: Any, batch_id: int) -> None:
        raise ValueError("half done")

    with pytest.raises(BatchNotTaken, match="ValueError"):
        live._guarded(fail, lambda: False)(FRAME, 1)
    assert known == [True]
    with pytest.raises(ValueError, match="half done"):
        live.raise_failure()


def test_no_batch_is_taken_after_a_step_that_failed() -> None:
    """A micro-batch that waited for the turn of a failed step is refused."""
    taken: list[int] = []
    live = source(threading.RLock())
    with pytest.raises(ValueError, match="half done"), live.refusing_after_failure():
        raise ValueError("half done")
    live._guarded(lambda frame, batch_id: taken.append(batch_id), lambda: False)(FRAME, 1)
    assert taken == [] and not live.failed


def test_a_step_that_succeeds_refuses_nothing() -> None:
    """After it the next micro-batch is taken."""
    taken: list[int] = []
    live = source(threading.RLock())
    with live.refusing_after_failure():
        pass
    live._guarded(lambda frame, batch_id: taken.append(batch_id), lambda: False)(FRAME, 1)
    assert taken == [1]


def test_session_of_a_batch_gets_no_rdds(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark makes a session for each micro-batch; ``RDD.toDF()`` of the user's is still of theirs."""
    monkeypatch.setattr(RDD, "toDF", "of the user's session")
    run = source(threading.RLock())._guarded(lambda frame, batch_id: None, lambda: False)
    RDD.toDF = "of the batch's"  # type: ignore[assignment,method-assign]
    run(FRAME, 1)
    assert RDD.__dict__["toDF"] == "of the user's session"
