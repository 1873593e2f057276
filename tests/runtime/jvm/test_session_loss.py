"""Errors of a session that was stopped under a query say so; others are left as they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.errors import CheckpointError, CheckpointMismatchError, SetupError, UserCodeError
from mixedmode.runtime.jvm import session_loss
from mixedmode.runtime.jvm.session_loss import explain_session_loss
from pyspark.errors import PySparkRuntimeError

STOPPED: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("'NoneType' object has no attribute 'removeJobTag'"),
        PySparkRuntimeError("Job 3 cancelled because SparkContext was shut down"),
        raised(CheckpointError("checkpoint 2 failed"), AttributeError("'NoneType' object has no attribute 'sc'")),
    ],
    ids=["PySpark's own", "Spark's", "of a checkpoint"],
)
def test_a_session_that_was_stopped(error: Exception) -> None:
    """The error says it, what to do, and what becomes of the query; what was noticed is its cause."""
    found = explain_session_loss(error, STOPPED)
    assert isinstance(found, SetupError) and found.code == "MIXEDMODE_SESSION_STOPPED" and found.__cause__ is error
    assert str(found).startswith("the Spark session was stopped while the query ran\n")
    assert "NoneType" not in str(found)


def test_errors_of_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """What user code raised, and files that are lost, are not the session's; nor is anything while it runs."""
    for error in (
        raised(UserCodeError("line 3"), PySparkRuntimeError("x")),
        OSError(28, "No space left on device"),
        raised(CheckpointError("checkpoint 2 failed"), OSError(28, "No space left on device")),
        raised(CheckpointMismatchError("it is another job's"), AttributeError("'NoneType' has no attribute 'sc'")),
    ):
        assert explain_session_loss(error, STOPPED) is error
    monkeypatch.setattr(session_loss, "is_stopped", lambda spark: False)
    bug = AttributeError("'NoneType' object has no attribute 'x'")
    assert explain_session_loss(bug, STOPPED) is bug
