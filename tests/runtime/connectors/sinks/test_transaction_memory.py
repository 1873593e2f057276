"""What Iceberg's snapshots say of transactions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mixedmode.runtime.connectors.sinks import transaction_memory
from mixedmode.runtime.connectors.sinks.transaction_memory import TransactionMark, memory_of
from mixedmode.runtime.connectors.transaction import SinkTransaction

#: As versions without tokens wrote them.
OLD = [{"mixedmode.job-id": "job-1", "mixedmode.transaction": str(number)} for number in (5, 6, 7)]


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    found: list[dict[str, str]] = [{"operation": "append"}, *OLD]
    monkeypatch.setattr(transaction_memory, "snapshot_summaries", lambda *where: found)
    return found


def has(transaction: SinkTransaction, job_id: str = "job-1", branch: int = 0) -> bool:
    memory, rows = memory_of("iceberg", None), SimpleNamespace(sparkSession=None)
    assert memory is not None
    return memory.has(rows, "t", None, TransactionMark.of(job_id, transaction, branch))  # type: ignore[arg-type]


def test_a_snapshot_is_found_by_what_no_other_transaction_has(snapshots: list[dict[str, str]]) -> None:
    """It is that of one transaction of one job, whatever its number was, and whatever newer ones there are."""
    memory = memory_of("iceberg", None)
    assert memory is not None
    given_up = SinkTransaction(id=6, token="given up", ordinal=2_000)
    told: Any = memory.options(TransactionMark.of("job-1", given_up, 0))
    assert {*told} == {*memory.ours}
    snapshots.append({name.removeprefix("snapshot-property."): str(value) for name, value in told.items()})
    assert has(given_up) and not has(given_up, "job-2")
    assert not has(SinkTransaction(id=6, token="in its place", ordinal=1_000)), "an older checkpoint, a late clock"
    assert not has(SinkTransaction(id=5, token="another", ordinal=2_000))


def test_snapshots_of_before_tokens_are_known_by_their_number(snapshots: list[dict[str, str]]) -> None:
    """Only what a checkpoint of that time has left to be shown can be in one; it is, if the number is its own."""
    assert snapshots == [{"operation": "append"}, *OLD]
    assert has(SinkTransaction(id=7)) and not has(SinkTransaction(id=8)) and not has(SinkTransaction(id=7), branch=1)
    assert not has(SinkTransaction(id=7, token="new", ordinal=7))
