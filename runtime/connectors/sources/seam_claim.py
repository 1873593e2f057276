"""Compares the seam that a live input claims to its history with what can be seen.

Only the job's author knows the seam in general.  Where positions were computed from what the history holds, they are
compared with those at which Spark's query has really begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .data_loss import Offsets


@dataclass(frozen=True)
class SeamClaim:
    """What was said of a seam."""

    #: In words, with what it rests on.
    text: str
    #: Where live is to begin, right behind the history: by topic and partition; None: it is not told by positions.
    begins: Offsets | None = None
    #: Partitions of which the history has nothing: live begins at whatever there is.
    not_held: frozenset[tuple[str, int]] = frozenset()
    #: Whether messages between the two may be missing.
    tolerates_gaps: bool = False

    def gaps(self, began: Offsets) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, first and last offset of what lies between the history's end and live's beginning."""
        for topic, number, claimed, at in self._both(began):
            if at > claimed:
                yield topic, number, claimed, at - 1

    def overlaps(self, began: Offsets) -> Iterator[tuple[str, int, int, int]]:
        """The same of what is in both."""
        for topic, number, claimed, at in self._both(began):
            if at < claimed and (topic, number) not in self.not_held:
                yield topic, number, at, claimed - 1

    def _both(self, began: Offsets) -> Iterator[tuple[str, int, int, int]]:
        for topic, partitions in (self.begins or {}).items():
            for number, claimed in sorted(partitions.items()):
                at = began.get(topic, {}).get(number)
                if at is not None:
                    yield topic, number, claimed, at

    def in_words(self, began: Offsets | None, reached: Offsets | None) -> str:
        """The seam as it turned out to be.

        Args:
            began: where live began; None: it is not known.
            reached: up to where it has been read since; None: the same.
        """
        said = [self.text]
        if began is not None:
            said.append(f"live began at {_offsets_text(began)}")
        if reached is not None:
            said.append(f"was read up to {_offsets_text(reached)}")
        if began is not None and self.begins is not None:
            flaws = [f"a gap, {_range(*one)}" for one in self.gaps(began)]
            flaws += [f"an overlap, {_range(*one)}" for one in self.overlaps(began)]
            said.append("; ".join(flaws) if flaws else "history and live meet, without gap or overlap")
        return "; ".join(said)


def _offsets_text(offsets: Offsets) -> str:
    return ", ".join(
        f"{topic} {{{', '.join(f'{number}: {at}' for number, at in sorted(partitions.items()))}}}"
        for topic, partitions in sorted(offsets.items())
    )


def _range(topic: str, number: int, first: int, last: int) -> str:
    return f"topic {topic}, partition {number}, offsets {first} to {last}"
