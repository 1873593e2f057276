"""Timeouts of the handle's methods: which are taken, and that one which is not taken changes nothing."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mixedmode import MixedQuery, OptionError
from mixedmode.runtime.handle.timeouts import timeout_s

#: PySpark's own limit.
LONGEST_S = 9223372036854775
METHODS = {
    "stop": lambda query, timeout: query.stop(timeout),
    "awaitTermination": lambda query, timeout: query.awaitTermination(timeout),
    "wait_for": lambda query, timeout: query.wait_for("live", timeout),
    "watch": lambda query, timeout: query.watch(timeout=timeout),
    "rescale": lambda query, timeout: query.rescale(2, timeout=timeout),
}


@pytest.mark.parametrize(
    "timeout",
    [math.nan, -math.inf, -1, "60", b"1", [], 10 * LONGEST_S, 1e300, 10**10_000],
    ids=lambda timeout: type(timeout).__name__,  # an int of so many digits has no text
)
@pytest.mark.parametrize("method", METHODS)
def test_a_timeout_that_is_no_number_of_seconds(method: str, timeout: object) -> None:
    """The error names the method, the value and what is allowed; the run has not been asked for anything."""
    query: Any = object.__new__(MixedQuery)  # without a run, which would fail whatever is asked of it
    with pytest.raises(OptionError, match=rf"^timeout of {method}\(\) is .*; allowed: a number of seconds") as caught:
        METHODS[method](query, timeout)
    assert len(str(caught.value)) <= 160


def test_a_timeout_of_no_time() -> None:
    """Where it means a look, it is taken; where nothing would be waited for, it is not."""
    query: Any = object.__new__(MixedQuery)
    query._run = SimpleNamespace(history=SimpleNamespace(phases={"backlog"}))
    assert query.wait_for("backlog", 0) and not query.wait_for("live", 0)
    for method in ("stop", "awaitTermination", "rescale"):
        with pytest.raises(OptionError, match=rf"timeout of {method}\(\) is 0; .*greater than 0"):
            METHODS[method](query, 0)


@pytest.mark.parametrize("timeout", [1, 0.5, True, np.float64(2.5), np.int64(3), Fraction(1, 3), 10**9])
def test_a_number_of_seconds_is_taken_as_it_is(timeout: Any) -> None:
    """Whatever PySpark takes, and numbers of other libraries."""
    assert timeout_s("stop", timeout) == float(timeout)


@pytest.mark.parametrize("timeout", [math.inf, LONGEST_S])
def test_more_than_a_thread_can_wait(timeout: float) -> None:
    """It is as good as without a limit."""
    query: Any = object.__new__(MixedQuery)
    stopped = SimpleNamespace(is_inside=False, stop=lambda: None)
    settings = SimpleNamespace(stop_timeout_ms=None)
    query._run = SimpleNamespace(
        ended=threading.Event(),
        runner=SimpleNamespace(stopping=stopped),
        job=SimpleNamespace(settings=settings),
        thread=threading.Thread(target=lambda: None),
    )
    query._run.thread.start()
    query.stop(timeout)
    assert not query._run.thread.is_alive()
