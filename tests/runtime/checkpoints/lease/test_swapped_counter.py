"""On a store that can swap, whoever takes over stops the counter that it has seen standing still."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mixedmode.errors import CheckpointError
from mixedmode.runtime.checkpoints.lease import driver_lease
from mixedmode.runtime.checkpoints.lease.claims import ClaimFolder
from mixedmode.runtime.checkpoints.lease.driver_lease import DriverLease, LeaseClock, LocationLost
from mixedmode.runtime.storage import s3
from mixedmode.runtime.storage.filesystem import resolve
from mixedmode.state.store.folder_owner import PLACE_VARIABLE
from s3_server import S3Server

EXPIRY_MS = 1000


class Hosts:
    """Leases on one location, each on a host of its own; time goes on when somebody sleeps."""

    def __init__(self, location: str, go: Callable[[str], None]) -> None:
        filesystem, self.root = resolve(location)
        self.folder = ClaimFolder(filesystem, self.root)
        self._go = go
        self._now_ms = 0

    def _sleep(self, ms: float) -> None:
        self._now_ms += max(1, round(ms))

    def lease(self, run: str) -> DriverLease:
        self._go(f"{run}.1")
        clock = LeaseClock(lambda: self._now_ms, self._sleep)
        return DriverLease(self.folder.filesystem, self.root, run, expiry_ms=EXPIRY_MS, clock=clock)

    def take(self, run: str) -> DriverLease:
        made = self.lease(run)
        made.take(lambda: (0, ()), heartbeat=False)
        driver_lease._held_here.discard(run)
        return made


@pytest.fixture
def hosts(object_store: S3Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    said = {name.removeprefix("fs.s3a."): text for name, text in object_store.hadoop.items()}
    monkeypatch.setattr(s3, "hadoop_settings", lambda prefix, bucket: said)
    bucket = object_store.make("leases")
    return Hosts(f"s3a://{bucket}/{request.node.name}", lambda host: monkeypatch.setenv(PLACE_VARIABLE, host))


@pytest.mark.slow
def test_one_that_was_taken_over_from_cannot_count(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if it saw nothing of the newer claim: the swap fails."""
    first = hosts.take("first")
    first.check(look=True)
    second = hosts.take("second")
    second.check(look=True)
    with monkeypatch.context() as blind:
        blind.setattr(ClaimFolder, "names", lambda self: set())
        with pytest.raises(LocationLost, match="has taken over"):
            first.check(look=True)
    with pytest.raises(LocationLost, match="run second"):
        first.check(look=True)
    first.release()
    second.check(look=True)
    assert second.claim is not None and second.claim.branch == 2


def test_a_counter_that_has_moved_is_not_stopped(hosts: Hosts) -> None:
    """Only what was seen is replaced, so of a count and a take-over one succeeds."""
    first = hosts.take("first")
    (seen,) = hosts.folder.look()
    first.check(look=True)
    assert not hosts.folder.stop(seen)
    first.check(look=True)
    (seen,) = hosts.folder.look()
    assert hosts.folder.stop(seen)
    with pytest.raises(LocationLost):
        first.check(look=True)


def test_one_that_stopped_another_and_died_is_in_nobodys_way(hosts: Hosts) -> None:
    """The next one need not wait for a counter that cannot move, and works in a branch of its own."""
    hosts.take("first")
    (seen,) = hosts.folder.look()
    assert hosts.folder.stop(seen)
    before_ms = hosts._now_ms
    assert hosts.take("third").claim.branch == 2  # type: ignore[union-attr]
    assert hosts._now_ms == before_ms


def test_a_count_whose_answer_was_lost_is_ones_own(hosts: Hosts) -> None:
    """The next count replaces it; a run that ends gives the location free."""
    first = hosts.take("first")
    before = first._last
    first.check(look=True)
    first._last = before
    first.check(look=True)
    first.release()
    assert hosts.take("second").claim.generation == 2  # type: ignore[union-attr]


def test_while_one_counts_others_are_refused(hosts: Hosts) -> None:
    """A newcomer that sees the counter move leaves it alone."""
    first, second = hosts.take("first"), hosts.lease("second")
    second._clock = LeaseClock(second._clock.now_ms, lambda ms: first.check(look=True))
    with pytest.raises(CheckpointError, match="another driver"):
        second.take(lambda: (0, ()))
    first.check(look=True)
