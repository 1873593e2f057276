"""Starts and ends that come to nothing, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode import MixedQuery
from mixedmode.runtime.handle.query_run import QueryRun


def test_start_that_is_broken_off_leaves_the_location_free() -> None:
    """Ctrl-C behind the claim: no run is shown, none can be signalled, and the next start finds the location free."""
    done: list[str] = []

    def interrupt(query_id: str) -> None:
        raise KeyboardInterrupt

    run: Any = object.__new__(QueryRun)
    run.runner = SimpleNamespace(
        claim=lambda: done.append("claimed"),
        identity=SimpleNamespace(query_id="id"),
        context=SimpleNamespace(
            lease=SimpleNamespace(release=lambda: done.append("released")),
            live=SimpleNamespace(take_settings=lambda: done.append("settings"), close=lambda: done.append("let go")),
        ),
    )
    context = SimpleNamespace(getLocalProperty=lambda name: None)
    run.job = SimpleNamespace(name=None, spark=SimpleNamespace(sparkContext=context))
    run._shown = SimpleNamespace(begin=interrupt, end=lambda error: done.append("not shown"))
    run.events = SimpleNamespace(end=lambda error, was_stopped: done.append("told"))
    run._end_by_signal = lambda: None
    run.ended = threading.Event()
    run.thread = threading.Thread(target=lambda: done.append("run"))
    with pytest.raises(KeyboardInterrupt):
        run.start(SimpleNamespace(name=None, isActive=True))
    assert done == ["claimed", "settings", "released", "not shown", "told", "let go"] and not run.is_active


def test_a_query_whose_session_was_stopped_says_so() -> None:
    """Not that ``None`` has no such attribute."""
    run: Any = object.__new__(QueryRun)
    run.job = SimpleNamespace(name="job", spark=SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None)))
    run.runner = SimpleNamespace(context=SimpleNamespace(store=None))
    run.error = run.explained(AttributeError("'NoneType' object has no attribute 'removeJobTag'"))
    failed = run.exception()
    assert str(failed).startswith("query job failed: the Spark session was stopped while the query ran\n")
    assert failed.code == "MIXEDMODE_SESSION_STOPPED"


@pytest.mark.parametrize("error", [PermissionError("no bucket of yours"), ValueError("no such folder")])
def test_query_ends_by_sigterm_though_its_savepoint_cannot_be_taken(error: Exception) -> None:
    """Whatever the place of the savepoint answers, the query is stopped; the process would stay otherwise."""
    done: list[str] = []

    def refuse(path: str) -> str:
        raise error

    query: Any = object.__new__(MixedQuery)
    settings = SimpleNamespace(savepoint_on_sigterm="s3://bucket")
    query._job = SimpleNamespace(settings=settings, keeps_state=True, name="job")
    query._run = SimpleNamespace(label="job")
    query.stopWithSavepoint, query.stop = refuse, lambda: done.append("stopped")
    query._end_by_signal()
    assert done == ["stopped"]
