"""Counts messages by latency: from the time that Kafka has for a message until what came of it is on its way.

Of many messages a few numbers are kept, which can be summed up over shards, and whose difference is what has come in
between.  Buckets have a width of 1 ms below 16 ms, and of at most an eighth of the latency above.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

#: Buckets of 1 ms, and buckets of each doubling above them, up to one of more than 46 days.
_EXACT, _PARTS, _DOUBLINGS = 16, 8, 28
_LOWER: npt.NDArray[np.int64] = np.array(
    [
        *range(_EXACT),
        *(
            (_EXACT << doubling) // _PARTS * part
            for doubling in range(_DOUBLINGS)
            for part in range(_PARTS, 2 * _PARTS)
        ),
    ],
    np.int64,
)
#: The greatest latency of each bucket but the last, which has no end.
_UPPER = _LOWER[1:] - 1
#: 34 years: such a message has no time, which Kafka says as -1.
_UNKNOWN_MS = 1 << 40


class LatencyHistogram:
    """How many messages had which latency.

    Args:
        counts: by bucket; None: there was no message.
        max_ms: the greatest latency.
    """

    def __init__(self, counts: npt.NDArray[np.int64] | None = None, max_ms: int = 0) -> None:
        self._counts = np.zeros(len(_LOWER), np.int64) if counts is None else counts
        self._max_ms = max_ms

    def add(self, latencies_ms: npt.NDArray[np.int64]) -> None:
        """Messages are done with.

        A clock that is behind that of whoever set a message's time makes a latency negative: it counts as 0.  A message
        without a time, of an old format, is left out.

        Args:
            latencies_ms: of the messages.
        """
        known = latencies_ms[latencies_ms < _UNKNOWN_MS]
        if not len(known):
            return
        np.maximum(known, 0, out=known)
        buckets = _LOWER.searchsorted(known, "right") - 1
        self._counts += np.bincount(buckets, minlength=len(_LOWER))
        self._max_ms = max(self._max_ms, int(known.max()))

    def include(self, other: LatencyHistogram) -> None:
        """Count another shard's messages, too."""
        self._counts += other._counts
        self._max_ms = max(self._max_ms, other._max_ms)

    def since(self, earlier: LatencyHistogram) -> LatencyHistogram:
        """The messages that have come since an earlier state of this histogram."""
        return LatencyHistogram(self._counts - earlier._counts, self._max_ms)

    @property
    def messages(self) -> int:
        """How many there are."""
        return int(self._counts.sum())

    @property
    def max_ms(self) -> int:
        """The greatest latency, or the end of its bucket if that is less; 0: there are no messages."""
        found = np.flatnonzero(self._counts)
        return self._end_ms(int(found[-1])) if len(found) else 0

    def percentile_ms(self, percent: float) -> int:
        """The latency that so many of the messages do not exceed: the end of its bucket; 0: there are no messages."""
        messages = self.messages
        if not messages:
            return 0
        rank = max(int(np.ceil(messages * percent / 100)), 1)
        return self._end_ms(int(np.cumsum(self._counts).searchsorted(rank)))

    def _end_ms(self, bucket: int) -> int:
        return self._max_ms if bucket >= len(_UPPER) else min(int(_UPPER[bucket]), self._max_ms)

    def to_json(self) -> list[Any]:
        """The greatest latency, and the buckets that have messages."""
        found = np.flatnonzero(self._counts)
        return [self._max_ms, found.tolist(), self._counts[found].tolist()]

    @classmethod
    def from_json(cls, body: list[Any]) -> LatencyHistogram:
        max_ms, buckets, counts = body
        histogram = cls(max_ms=max_ms)
        histogram._counts[buckets] = counts
        return histogram

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatencyHistogram) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


@dataclass
class EpochProgress:
    """What shards have done of an epoch so far."""

    #: Messages that are done with, those that filters drop among them.
    rows: int = 0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)

    def include(self, other: EpochProgress) -> None:
        """Count what another shard has done, too."""
        self.rows += other.rows
        self.latencies.include(other.latencies)

    def since(self, earlier: EpochProgress) -> EpochProgress:
        """What was done since an earlier state of this."""
        return EpochProgress(self.rows - earlier.rows, self.latencies.since(earlier.latencies))

    def to_bytes(self) -> bytes:
        """As JSON, behind its checksum."""
        body = json.dumps([self.rows, self.latencies.to_json()]).encode()
        return b"%08x " % zlib.crc32(body) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> EpochProgress | None:
        """None: the file is half written, or of another version."""
        checksum, _, body = data.partition(b" ")
        if checksum != b"%08x" % zlib.crc32(body):
            return None
        try:
            rows, latencies = json.loads(body)
            return cls(rows, LatencyHistogram.from_json(latencies))
        except (ValueError, TypeError, IndexError):
            return None
