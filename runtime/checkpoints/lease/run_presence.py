"""Tells from outside, by one look, whether a driver runs on a checkpoint location."""

from __future__ import annotations

from dataclasses import dataclass

from .claims import ClaimFolder, Holder, Seen, authority, in_charge


@dataclass(frozen=True)
class RunPresence:
    """What the claims of a location say at one moment.

    Unlike a driver that wants the location, who looks for as long as it takes, this one looks once.  Of a process of
    another host it knows no more than how long ago its counter was written, by the clocks of the store and this host.
    """

    #: Who has the location, or had it last and did not give it free; None: nobody.
    holder: Holder | None = None
    #: Since the holder's counter was written; None: not known.
    silent_ms: int | None = None
    #: How long a counter may stand still before another driver takes the location over.
    expiry_ms: int = 0
    #: Whether somebody else keeps the holder from counting on.
    is_stopped: bool = False
    #: How often the location was claimed.
    generation: int = 0
    #: Whether the holder writes an event log.
    has_event_log: bool = True

    @property
    def held_generation(self) -> int | None:
        """The generation of the claim that holds the location; None: nobody holds it."""
        return None if self.holder is None else self.generation

    @property
    def is_silent(self) -> bool:
        """Whether the holder has not counted for so long that another driver would take over."""
        return self.silent_ms is not None and self.silent_ms > self.expiry_ms

    @property
    def is_running(self) -> bool:
        """Whether there is a driver.  One of this host that is paused counts as one; it is silent."""
        if self.holder is None or self.is_stopped:
            return False
        lives = self.holder.lives
        return not self.is_silent if lives is None else lives


def standing_of(folder: ClaimFolder, now_ms: int) -> RunPresence:
    """Look at the claims of a location.

    Args:
        folder: of the location.
        now_ms: milliseconds since 1970.

    Raises:
        CheckpointMismatchError: a newer version of mixedmode has it.
    """
    seen = folder.look()
    newest, found = authority(seen), in_charge(seen)
    generation = 0 if newest is None else newest.generation
    if found is None:
        return RunPresence(generation=generation)
    claim, silent_ms = found.claim, _silent_ms(folder, found, now_ms)
    return RunPresence(claim.holder, silent_ms, claim.expiry_ms, found.is_stopped, generation, claim.has_event_log)


def _silent_ms(folder: ClaimFolder, seen: Seen, now_ms: int) -> int | None:
    written_ms = folder.written_ms(seen.claim)
    return None if written_ms is None else max(0, now_ms - written_ms)
