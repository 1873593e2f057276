"""Decides when a location may be taken over and how long its holder may act, without disk and clock.

Pids of one host decide at once.  Of all other holders only their counters are seen, so:

- The holder counts, and looks for newer claims *after* each count.  A count that was begun at ``t`` and met no newer
  claim lets it act until ``t`` + expiry / 2; then it must have counted again before it does anything that others see.
- A newcomer watches.  A counter that moves belongs to a living holder: the newcomer is refused.  One that has stood
  still for one expiry, on the newcomer's own monotonic clock, belongs to one that may not act any more.  The newcomer
  then claims, looks again, and takes its claim back unless it sees exactly what it has judged.

Where a store can swap, the newcomer also replaces the counter that it has seen, which fails if it has moved since, and
after which its owner cannot count.  Why it is enough without that, too: a count that the second look does not show was
written after it, so its owner, who looks for claims after that, finds the newcomer's; and what the second look shows
unchanged was written more than one expiry ago.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .claims import LeaseClaim, Seen, authority


@dataclass(frozen=True)
class Verdict:
    """What a newcomer may do now.

    "free": claim the location; "held": it is refused; "wait": look again, at the latest after ``remaining_ms``.
    """

    answer: Literal["free", "held", "wait"]
    #: Whose claim stands in the way.
    claim: LeaseClaim | None = None
    remaining_ms: int = 0
    #: "free": True if every earlier owner is known to have ended; False: one may still believe it has the location.
    is_certain: bool = True


@dataclass
class ClaimWatch:
    """What one newcomer has seen of the claims of a location.

    Args:
        lives: whether the owner of a claim runs; None: that cannot be known from here.
    """

    lives: Callable[[LeaseClaim], bool | None]
    #: By name: the counter as it was first seen, and when.
    _first: dict[str, tuple[bytes | None, int]] = field(default_factory=dict)
    #: All that the last verdict rests on.
    _judged: dict[str, bytes | None] = field(default_factory=dict)

    def judge(self, seen: Sequence[Seen], began_ms: int, ended_ms: int) -> Verdict:
        """Look at the claims.

        Args:
            seen: all there are.
            began_ms: when reading them began.
            ended_ms: when it had ended.
        """
        self._judged = {one.claim.name: one.beat for one in seen}
        newest = authority(seen)
        relevant = [one for one in seen if newest is None or one.claim.generation >= newest.generation]
        # What an earlier version wrote says nothing of generations.
        relevant += [one for one in seen if not one.claim.name and one not in relevant]
        is_certain, longest = True, Verdict("free")
        for one in relevant:
            claim = one.claim
            if one.is_stopped:  # it stood still for one expiry before, and cannot renew
                is_certain = False
                continue
            lives = False if one.is_released else self.lives(claim)
            if lives is False:
                continue
            first_beat, since_ms = self._first.setdefault(claim.name, (one.beat, ended_ms))
            if lives or one.beat != first_beat:
                return Verdict("held", claim)
            is_certain = False
            remaining_ms = since_ms + claim.expiry_ms - began_ms
            if remaining_ms > longest.remaining_ms:
                longest = Verdict("wait", claim, remaining_ms)
        return longest if longest.answer == "wait" else Verdict("free", is_certain=is_certain)

    def is_unchanged(self, seen: Sequence[Seen], mine: LeaseClaim) -> bool:
        """True if all that is there besides a claim of one's own is what the last verdict rests on."""
        return {one.claim.name: one.beat for one in seen if one.claim.name != mine.name} == self._judged


def next_generation(seen: Sequence[Seen]) -> int:
    """Greater than that of any claim that is there."""
    return max((one.claim.generation for one in seen), default=0) + 1


@dataclass
class Tenure:
    """How long the holder of a claim may act.

    Args:
        expiry_ms: what its claim says.
    """

    expiry_ms: int
    _renewed_ms: int | None = None

    def renewed(self, began_ms: int) -> None:
        """A count that was begun at this time has met no newer claim."""
        self._renewed_ms = began_ms

    def may_act(self, now_ms: int) -> bool:
        """True while nobody can have taken the location over."""
        return self._renewed_ms is not None and now_ms - self._renewed_ms < self.expiry_ms // 2

    def stale_ms(self, now_ms: int) -> int:
        """Time since the last renewal."""
        return 0 if self._renewed_ms is None else now_ms - self._renewed_ms
