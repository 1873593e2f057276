"""How a live input goes on from a history, and what that rests on: nobody but the job's author can know in general.

A seam is told by ``explain()``.  Where it rests on positions, gaps and overlaps can be seen before the backlog runs.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    @property
    def refusal(self) -> str | None:
        """Why a job must not begin with it; None: it may."""
        return None if self.tolerates_flaws or not self.flaws else "; ".join(self.flaws)

    @property
    def warning(self) -> str | None:
        """What is wrong with it all the same; None: nothing."""
        return "; ".join(self.flaws) if self.tolerates_flaws and self.flaws else None
