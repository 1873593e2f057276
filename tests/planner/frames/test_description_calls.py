"""How often a job that is described calls the JVM: each call is a round trip, and many make an analysis."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from mixedmode import read
from py4j.clientserver import ClientServerConnection
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: Py4J tells at any time that objects are not needed any more.
_MEMORY = "m\n"


def test_a_job_is_described_with_few_calls(history: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """This number may only fall."""
    window, total = F.window("ts", "1 hour"), F.sum("v")
    send, thread, calls = ClientServerConnection.send_command, threading.get_ident(), list[str]()

    def counted(connection: Any, command: str) -> Any:
        if threading.get_ident() == thread and not command.startswith(_MEMORY):
            calls.append(command)
        return send(connection, command)

    def described() -> int:
        calls.clear()
        read(history=history).withWatermark("ts", "1 hour").groupBy(window, "k").agg(total)
        return len(calls)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    described()  # classes that are asked for by name are known from now on
    assert described() <= 325
