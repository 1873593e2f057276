"""One driver per checkpoint location: how a run gets it, keeps it and gives it free.

A second driver would rewind Spark's log and sweep files under the feet of the first.  A run whose process is known to
live, or whose counter moves, keeps the location: the newcomer is refused.  Where neither is so (another host or
container) the newcomer waits for one expiry and takes the location over; the run that lost it does nothing any more
that others can see.  The rules are in :mod:`.rules`, the files in :mod:`.claims`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyarrow import fs

from ....errors import CheckpointError
from ...storage.conditional import Version
from ...support.ids import RunId
from .claims import ClaimFolder, Holder, LeaseClaim, Seen, authority, in_charge, name_of
from .rules import ClaimWatch, Tenure, Verdict, next_generation

__all__ = ["DriverLease", "Holder", "LeaseClock", "LocationLost", "holder_of"]

logger = logging.getLogger(__name__)

EXPIRY_MS, HEARTBEAT_MS = 30_000, 5_000
#: Longest wait of a newcomer between two looks at the counters.
_LONGEST_WAIT_MS = 1000
#: Longest pause before two newcomers that met try again.
_JITTER_MS = 200

#: The branch that a run would go on from, and the checkpoints that are complete there.
View = tuple[int, tuple[int, ...]]

#: Runs of this process that have a location.
_held_here: set[str] = set()


def _now_ms() -> int:
    """A clock that nobody sets, and that goes on while the machine sleeps, where there is such a one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return round(time.clock_gettime(clock) * 1000)


@dataclass(frozen=True)
class LeaseClock:
    """The time, and how it is spent."""

    now_ms: Callable[[], int] = _now_ms
    sleep_ms: Callable[[float], None] = lambda ms: time.sleep(ms / 1000)


class LocationLost(CheckpointError):
    """This run may not do any more what others can see."""

    code = "MIXEDMODE_LOCATION_LOST"


class DriverLease:
    """The claim of one run on a checkpoint location.

    Args:
        filesystem: of the location.
        root: its folder ``mixedmode``, made if it does not exist.
        run_id: this run.
        expiry_ms: how long the counter must stand still before somebody elsewhere may take over.
        heartbeat_ms: time between two counts.
        has_event_log: whether the run writes one, for those who look at the claim from outside.
        clock: for tests.
    """

    def __init__(
        self,
        filesystem: fs.FileSystem,
        root: str,
        run_id: RunId,
        *,
        expiry_ms: int = EXPIRY_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        has_event_log: bool = True,
        clock: LeaseClock | None = None,
    ) -> None:
        self.root = root
        self.run_id = run_id
        #: What this run has; None: nothing.
        self.claim: LeaseClaim | None = None
        #: Called once, on the thread of the heartbeat, when the location turns out to be lost.
        self.on_lost: Callable[[], None] = lambda: None
        self._folder = ClaimFolder(filesystem, root, expiry_ms)
        self._heartbeat_ms = heartbeat_ms
        self._has_event_log = has_event_log
        self._clock = clock or LeaseClock()
        self._tenure = Tenure(expiry_ms)
        self._count = 0
        #: The counter as this run has written it.
        self._last: Version | None = None
        self._successor: LeaseClaim | None = None
        #: Whether somebody keeps this run from counting on.
        self._is_stopped = False
        #: Whether the run was given up while a step of it was still in hand.
        self._is_given_up = False
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    # -- getting it --------------------------------------------------------------------------------------------------

    def take(self, view: Callable[[], View] | None = None, *, heartbeat: bool = True) -> LeaseClaim:
        """Claim the location, after one expiry if that is how long it takes to see that nobody has it.

        Args:
            view: tells where a run that takes over from one that may still live goes on from, in a new branch; asked
                when the location is about to be claimed.  None: this run changes no checkpoint, so it needs none.
            heartbeat: whether a thread keeps the claim alive; False: the caller does, by :meth:`check`.

        Raises:
            CheckpointError: another driver has the location.
            OSError: the claim cannot be written; the location is as free as before.
        """
        watch, announced = ClaimWatch(self._lives), False
        while True:
            seen, verdict = self._judge(watch)
            if verdict.answer == "held":
                raise self._refusal(verdict.claim)
            if verdict.answer == "wait":
                if not announced:
                    announced = True
                    logger.warning(
                        "checkpointLocation %s is claimed by %s, which may still run: waiting %.0f s for a sign of"
                        " life",
                        self.root,
                        verdict.claim,
                        verdict.remaining_ms / 1000,
                    )
                self._clock.sleep_ms(min(verdict.remaining_ms, _LONGEST_WAIT_MS, self._tenure.expiry_ms / 5))
                continue
            try:
                if self._try(watch, seen, verdict.is_certain, view):
                    break
            except BaseException:
                if self.claim is not None:  # or it kept the location for as long as this process lives
                    self.release()
                raise
            self._clock.sleep_ms(random.uniform(0, _JITTER_MS))
        assert self.claim is not None
        if heartbeat:
            name = f"mixedmode-lease-{self.run_id}"
            self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
            self._thread.start()
        return self.claim

    def check_free(self) -> None:
        """Raise CheckpointError if a run has the location that is known to live: what can be said without waiting."""
        _, verdict = self._judge(ClaimWatch(self._lives))
        if verdict.answer == "held":
            raise self._refusal(verdict.claim)

    def _judge(self, watch: ClaimWatch) -> tuple[list[Seen], Verdict]:
        began_ms = self._clock.now_ms()
        seen = self._folder.look()
        return seen, watch.judge(seen, began_ms, self._clock.now_ms())

    def _refusal(self, claim: LeaseClaim | None) -> CheckpointError:
        return CheckpointError(
            f"another driver ({claim}) runs this job on the same checkpointLocation: {self.root}. Stop one of them",
            code="MIXEDMODE_LOCATION_IN_USE",
        )

    def _lives(self, claim: LeaseClaim) -> bool | None:
        """Whether the owner of a claim runs; None: that cannot be known."""
        holder = claim.holder
        if holder is None:
            return None
        lives = holder.lives
        if lives and holder.pid == os.getpid() and holder.run not in _held_here:
            return False  # it has ended here, and could not say so
        return lives

    def _try(self, watch: ClaimWatch, seen: list[Seen], is_certain: bool, view: Callable[[], View] | None) -> bool:
        """Claim, and see whether somebody else did, too."""
        before, generation = authority(seen), next_generation(seen)
        branch, parent, seed = (0, 0, ()) if before is None else (before.branch, before.parent, before.seed)
        is_alone = is_certain and (before is None or before.is_alone)
        if not is_alone and view is not None:
            is_alone, branch, (parent, seed) = True, generation, view()
        me = Holder.here(self.run_id)
        name = name_of(generation, branch, self.run_id)
        expiry_ms, has_log = self._tenure.expiry_ms, self._has_event_log
        claim = LeaseClaim(generation, branch, me, expiry_ms, parent, seed or (), is_alone, name, has_log)
        self._folder.put(claim)
        if not watch.is_unchanged(self._folder.look(), claim) or not all(map(self._folder.stop, seen)):
            self._folder.remove(claim)
            return False
        self.claim, self._last = claim, None
        if not self._renew():
            self.claim, self._successor, self._is_stopped = None, None, False
            self._folder.remove(claim)
            return False
        _held_here.add(self.run_id)
        self._folder.tell_old_versions(me)
        self._folder.remove_older(claim)
        return True

    # -- keeping it --------------------------------------------------------------------------------------------------

    def check(self, *, look: bool = False) -> None:
        """Raise unless this run may do what others can see: called right before each such step.

        It costs nothing while the heartbeat goes well.  A run that was paused renews its claim first, if it still can.

        Args:
            look: look for other claims in any case.

        Raises:
            LocationLost: another run has taken the location over, or the claim cannot be renewed.
        """
        if self._is_given_up:
            raise LocationLost(f"stop() has given this run up, and the location free: {self.root}")
        if not look and not self.is_lost and self._tenure.may_act(self._clock.now_ms()):
            return
        try:
            if self._renew():
                return
        except OSError as error:
            if self._tenure.may_act(self._clock.now_ms()):
                return
            raise LocationLost(
                f"this run could not renew its claim on {self.root} for {self._stale_s:.0f} s ({error}); allowed is"
                f" half of execution.lease.expiry ({self._tenure.expiry_ms} ms). The run ends; the next start processes"
                " again what it has processed since its last checkpoint"
            ) from error
        other = f" ({self._successor})" if self._successor is not None else ""
        raise LocationLost(
            f"another driver{other} has taken over this job's checkpointLocation: {self.root}."
            " This run ends; what it has processed since its last checkpoint is the other one's"
        )

    @property
    def is_lost(self) -> bool:
        """True if another run is known to have taken the location over."""
        return self._successor is not None or self._is_stopped

    def find_out(self) -> None:
        """Look whether another run has taken the location over, after a step has failed that it may have failed by.

        Raises:
            LocationLost: so it is.
        """
        with contextlib.suppress(Exception):  # what failed before may be the same, and is told better there
            self._renew()
        if self.is_lost:
            self.check()

    @property
    def _stale_s(self) -> float:
        return self._tenure.stale_ms(self._clock.now_ms()) / 1000

    def _renew(self) -> bool:
        """Count once more; False: there is a newer claim."""
        with self._lock:
            claim = self.claim
            if claim is None:
                return True  # nothing was claimed, so nothing can be lost
            if self.is_lost:
                if self._successor is None:  # it had not begun yet
                    self._is_succeeded(claim)
                return False
            began_ms = self._clock.now_ms()
            try:
                last = self._folder.beat(claim, self._count + 1, last=self._last)
            except OSError:
                if self._is_succeeded(claim):  # who came next cleans up, perhaps just while we write
                    return False
                raise
            if last is None:
                self._is_stopped = True
                self._is_succeeded(claim)
                return False
            self._count, self._last = self._count + 1, last
            if self._is_succeeded(claim):
                return False
            self._tenure.renewed(began_ms)
            return True

    def _is_succeeded(self, claim: LeaseClaim) -> bool:
        """True if there is a newer claim."""
        newer = {name for name in self._folder.names() if int(name[:8]) > claim.generation}
        if newer:
            claims = [one for one in self._folder.look() if one.claim.name in newer]
            if any(one.is_established for one in claims):
                self._successor = authority(claims)
        return bool(newer)

    def _keep(self) -> None:
        """Count until the run ends."""
        while not self._ending.wait(self._heartbeat_ms / 1000):
            try:
                self._renew()
            except Exception as error:  # whoever needs the claim asks for himself
                logger.info("the claim on %s was not renewed: %s", self.root, error)
            if self.is_lost:
                self.on_lost()
                return

    # -- giving it free ----------------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Whatever of this run goes on, a user's function that returns after all for one, may do nothing more."""
        self._is_given_up = True

    def release(self) -> None:
        """Give the location free, if this run still has it."""
        self._ending.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            claim, self.claim = self.claim, None
            _held_here.discard(self.run_id)
            if claim is None or self.is_lost:
                return
            try:
                if self._folder.beat(claim, self._count + 1, released=True, last=self._last) is None:
                    return
                if not any(int(name[:8]) > claim.generation for name in self._folder.names()):
                    self._folder.tell_old_versions(None)
            except OSError as error:
                # Whoever comes next finds this run ended, or waits for one expiry.
                logger.warning("the claim on %s could not be released: %s", self.root, error)

    def holder(self) -> Holder | None:
        """The run that has the location; None: nobody, or a file that says nothing."""
        return holder_of(self._folder)


def holder_of(folder: ClaimFolder) -> Holder | None:
    """The run that has a location; None: nobody, or nothing can be said."""
    found = in_charge(folder.look())
    return None if found is None else found.claim.holder
