"""Describes how a live input continues its history, and what that claim rests on.

A seam is told by ``explain()``.  Where it rests on positions, gaps and overlaps can be seen before the backlog runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...runtime.connectors.sources.seam_claim import SeamClaim


@dataclass(frozen=True)
class Seam:
    """Where the history ends and live begins."""

    #: In words, with what it rests on.
    text: str
    #: Gaps and overlaps that its positions show.
    flaws: tuple[str, ...] = ()
    #: Whether the job may begin in spite of them.
    tolerates_flaws: bool = False
    #: What to do about them.
    hint: str = ""
    #: Where live is to begin, by topic and partition, if it is told by positions.
    begins: Mapping[str, Mapping[int, int]] | None = None
    #: Partitions of which the history has nothing.
    not_held: frozenset[tuple[str, int]] = frozenset()

    @property
    def claim(self) -> SeamClaim:
        """What the runtime compares with where live begins, and tells at the switch."""
        return SeamClaim(self.text, self.begins, self.not_held, self.tolerates_flaws)

    @property
    def refusal(self) -> str | None:
        """Why a job must not begin with it; None: it may."""
        return None if self.tolerates_flaws or not self.flaws else "; ".join(self.flaws)

    @property
    def warning(self) -> str | None:
        """What is wrong with it all the same; None: nothing."""
        return "; ".join(self.flaws) if self.tolerates_flaws and self.flaws else None
