"""The thread beside the epochs, when what it does never returns."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from mixedmode.runtime.connectors.sources.live_query import Stopped
from mixedmode.runtime.driver.checkpoint.checkpoint_thread import CompletingThread


def test_nobody_waits_for_a_thread_of_a_run_that_was_given_up() -> None:
    """Neither who has asked for the work, nor who closes the thread; one that is not given up is waited for."""
    given_up, may = threading.Event(), threading.Event()
    done: list[int] = []
    beside = CompletingThread(cast(Any, None), "beside", lambda: done.append(0), given_up=given_up)
    beside.wait_for(lambda: done.append(1))
    assert done[:1] == [1]
    timer = threading.Timer(0.3, given_up.set)
    timer.start()
    with pytest.raises(Stopped):
        beside.wait_for(lambda: cast(None, may.wait()))
    beside.close()
    assert given_up.is_set() and not may.is_set() and beside.thread_id is not None
    may.set()
    timer.join()


def test_work_that_fails_is_waited_for() -> None:
    """What goes wrong in there is its own to keep."""
    beside = CompletingThread(cast(Any, None), "beside", lambda: None)
    seen: list[str] = []

    def work() -> None:
        seen.append("done")

    beside.wait_for(work)
    beside.close()
    assert seen == ["done"] and beside.thread_id is None
