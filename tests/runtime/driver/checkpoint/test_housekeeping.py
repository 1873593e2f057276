"""What is tidied up behind checkpoints: it holds nobody up, and takes nothing that anybody needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from beside_support import Checkpointed, at
from graph_kinds import Windows
from graph_support import Stage
from mixedmode.errors import CheckpointError
from mixedmode.runtime.driver.checkpoint import checkpoint_coordinator, housekeeping
from mixedmode.runtime.driver.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from mixedmode.runtime.driver.coordinators.task_graph import lifecycle_of
from mixedmode.runtime.driver.run.rescaling import reassign_shards
from mixedmode.runtime.protocols.checkpoint_scheduler import CheckpointScheduler
from mixedmode.state.store import state_manifest


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkpointed]:
    """A job whose checkpoints are taken by ``auto``, and whose change logs are compacted when there are two."""
    monkeypatch.setattr(state_manifest, "_FULL_MIN_BYTES", 0)
    monkeypatch.setattr(state_manifest, "_LOGS_MAX", 2)
    made = Checkpointed(tmp_path, [Stage("a", Windows(5))])
    made.coordinator.scheduler = CheckpointScheduler(None, 0, 0, 0, frozenset(made.state.sources))
    made.at_once = True
    yield made
    made.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The monotonic clock of rounds and the wall clock of the store, in one: its reading in ms."""
    now = [1_000_000]
    monkeypatch.setattr(housekeeping, "clock_ms", lambda: now[0])
    monkeypatch.setattr("mixedmode.runtime.checkpoints.retention.time.time", lambda: now[0] / 1000)
    return now


def test_by_auto_each_epoch_that_changes_something_has_its_checkpoint(job: Checkpointed) -> None:
    """An epoch that moves nothing but the watermark has none of its own."""
    for time_ms in (1, 2):
        job.take("live", at(time_ms))
        job.coordinator.checkpoint_if_due()
        job.coordinator.look()
    epoch = job.state.epoch
    job.take("live", [])
    job.coordinator.checkpoint_if_due()
    assert job.outcomes == ["1 complete", "2 complete"]
    assert job.state.epoch == epoch + 1 and not job.coordinator.has_change


def test_epochs_share_a_checkpoint_while_one_is_completed(job: Checkpointed) -> None:
    """The second one is taken when the first is complete, and holds all epochs since."""
    job.at_once = False
    for time_ms in (1, 2, 3, 4):
        job.take("live", at(time_ms))
        job.coordinator.checkpoint_if_due()
    job.complete()
    job.coordinator.checkpoint_if_due()
    job.complete()
    job.coordinator.look()
    assert job.outcomes == ["1 complete", "2 complete"]
    assert [job.store.read(number).epoch for number in job.store.ids()] == [1, 4]


ASKS: dict[str, Callable[[CheckpointCoordinator], object]] = {
    "stop": lambda coordinator: coordinator.checkpoint_if_behind("stop"),
    "processAllAvailable": lambda coordinator: coordinator.checkpoint_if_behind("requested", when_due=True),
    "savepoint": lambda coordinator: coordinator.checkpoint("savepoint"),
    "rescale or pause": lambda coordinator: coordinator.checkpoint_beside("pause"),
}


@pytest.mark.parametrize("ask", ASKS)
def test_whoever_asks_meets_a_checkpoint_in_flight(
    job: Checkpointed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    """Of a slow store one is in flight all the time: it is completed first, and the next one holds all rows, once."""
    waited: list[int | None] = []

    def wait(*_: object) -> None:
        waited.append(job.coordinator.in_flight)
        job.complete()

    monkeypatch.setattr(checkpoint_coordinator, "wait_unless_given_up", wait)
    (tmp_path / "twin").mkdir()
    job.at_once, twin = False, Checkpointed(tmp_path / "twin", [Stage("a", Windows(5))])
    for time_ms in range(1, 31):
        for one in (job, twin):
            one.take("live", at(time_ms))
        job.coordinator.checkpoint_if_due()
        assert job.coordinator.in_flight is not None
        if time_ms % 10 == 0:
            in_flight = job.coordinator.in_flight
            ASKS[ask](job.coordinator)
            assert waited.pop() == in_flight and not waited
            job.complete()
            job.coordinator.look()
            assert job.store.read(job.store.ids()[-1]).epoch == time_ms
            assert not job.state.pending
    twin.end()
    assert job.shown() == twin.shown() != []
    assert all(outcome.endswith("complete") for outcome in job.outcomes)
    twin.close()


def test_epochs_wait_when_too_many_are_pending(job: Checkpointed) -> None:
    """Beyond execution.checkpointing.max-pending-epochs the checkpoint in flight is waited for."""
    job.spec.settings.__dict__["max_pending_epochs"] = 2
    job.at_once = False
    job.take("live", at(1))
    job.cut()
    job.take("live", at(2))
    job.coordinator.keep_up()
    assert job.coordinator.in_flight == 1, "one more may be processed"
    job.take("live", at(3))
    waited: list[Any] = []

    def wait(*_: object) -> bool:
        waited.append(job.coordinator.in_flight)
        job.complete()
        return True

    with mock.patch.object(job.coordinator._in_flight.at_rest, "wait", wait):  # type: ignore[union-attr]
        job.coordinator.keep_up()
    assert (waited, job.coordinator.in_flight) == ([1], None)


def test_a_checkpoint_stays_for_a_minute_however_many_follow(job: Checkpointed, clock: list[int]) -> None:
    """Whoever reads one by its number, or copies it, has that time; then the newest ones stay."""
    for time_ms in range(1, 8):
        job.take("live", at(time_ms))
        job.coordinator.checkpoint_if_due()
        job.coordinator.look()
        clock[0] += housekeeping.CLEAN_EVERY_MS
    assert job.store.ids() == [2, 3, 4, 5, 6, 7], "the first was a minute old when the last round came"
    job.take("live", at(8))
    job.coordinator.checkpoint_if_due()
    job.coordinator.look()
    assert job.store.ids() == [3, 4, 5, 6, 7, 8]
    clock[0] += housekeeping.KEEP_MS
    job.take("live", at(9))
    job.coordinator.checkpoint_if_due()
    job.coordinator.look()
    job.coordinator.housekeeping.finish()
    assert job.store.ids() == [8, 9]
    job.check_files(nothing_else=True)


def test_files_are_removed_every_ten_seconds_at_most(job: Checkpointed, clock: list[int]) -> None:
    """Listing folders with each of five checkpoints a second would cost more than the epochs."""
    with mock.patch.object(job.store.retention, "subsume") as subsume:
        for time_ms in range(1, 31):
            job.take("live", at(time_ms))
            job.coordinator.checkpoint_if_due()
            job.coordinator.look()
            clock[0] += 1_000
    assert subsume.call_count == 3


def test_a_compaction_of_shards_that_were_dealt_anew_is_dropped(job: Checkpointed) -> None:
    """It was of the shards that there were; what it has made is removed, and no row is lost."""
    for time_ms in (1, 2, 3):
        job.take("live", at(time_ms))
    job.cut()
    job.at_once = False
    job.coordinator.look()
    assert job.coordinator.housekeeping._round is not None, "it has not begun with its work"
    reassign_shards(job.state, job.events, mock.Mock(), dict.fromkeys(job.state.stages, 3))
    job.tasks.lifecycle = lifecycle_of(job.spec, job.state)
    job.complete()
    job.coordinator.look()
    assert len(job.stages[0].manifests) == 3
    for time_ms in (30, 60):
        job.take("live", at(time_ms))
        job.take("clock")
    job.end()
    job.check_files(nothing_else=True)
    assert sum(row[2] for row in job.shown()) == 4


@pytest.mark.parametrize("tolerated", [0, 1])
def test_a_round_that_fails_counts_as_a_checkpoint_that_fails(job: Checkpointed, tolerated: int) -> None:
    """What is tolerated is tried again behind the next one; the checkpoint itself is complete."""
    job.spec.settings.__dict__["tolerable_failed_checkpoints"] = tolerated
    with mock.patch.object(job.store.retention, "collect_garbage", side_effect=OSError("no such disk")):
        job.take("live", at(1))
        job.coordinator.checkpoint_if_due()
        job.coordinator.look()  # the checkpoint is complete, and a round follows
        if tolerated:
            job.coordinator.look()
        else:
            with pytest.raises(CheckpointError, match="behind checkpoint 1 failed: no such disk"):
                job.coordinator.look()
    assert job.outcomes == ["1 complete"]
    job.coordinator.look()
