"""A cursor for many short range reads of a local copy, cheapest when they ascend.

One position serves all reads.  A read that begins where the last one ended, as in a sorted pass that touches
every key, costs no seek at all; one a few entries ahead is reached by stepping.
"""

from __future__ import annotations

from collections.abc import Callable

from .database import LocalDatabase

Entry = tuple[bytes, bytes]

#: Steps before a seek is cheaper.
_STEPS = 4


class LocalStateCursor:
    """Invariant: no stored key lies strictly between ``_behind`` and ``_at``, the key that the iterator stands on."""

    def __init__(self, database: LocalDatabase, failed: Callable[[Exception, str], Exception]) -> None:
        self._iterator = database.position()
        self._failed = failed
        #: None: not placed yet.
        self._behind: bytes | None = None
        #: None: beyond the last key.
        self._at: bytes | None = None

    def read_prefix(self, prefix: bytes) -> list[Entry]:
        """All entries that start with ``prefix``."""
        return self.read_from(prefix, prefix, None)

    def read_from(self, lower: bytes, prefix: bytes, limit: int | None) -> list[Entry]:
        """The entries from ``lower`` on that start with ``prefix``, the first ``limit`` of them."""
        self._move_to(lower)
        iterator, key = self._iterator, self._at
        found: list[Entry] = []
        while key is not None and key.startswith(prefix) and (limit is None or len(found) < limit):
            found.append((key, iterator.value()))
            key = self._step()
        return found

    def _move_to(self, target: bytes) -> None:
        if self._behind is not None and self._behind < target:
            at = self._at
            if at is None or at >= target:
                return
            for _ in range(_STEPS):
                at = self._step()
                if at is None or at >= target:
                    return
        self._iterator.seek(target)
        self._behind = target
        self._look()

    def _step(self) -> bytes | None:
        self._behind = self._at
        self._iterator.next()
        return self._look()

    def _look(self) -> bytes | None:
        if self._iterator.valid():
            self._at = self._iterator.key()
            return self._at
        self._at = None
        try:
            self._iterator.status()
        except Exception as error:
            self._behind = None
            raise self._failed(error, "scan") from error
        return None
