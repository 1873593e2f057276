"""Bytes in use against a fixed limit: the sorter's only idea of "memory is full".

>>> limiter = ByteLimiter(100)
>>> limiter.fits(60)
True
>>> limiter.acquire(60)
>>> limiter
<ByteLimiter 60 of 100 bytes>
>>> limiter.fits(60)
False
>>> limiter.release_all()
>>> limiter.available_bytes
100
"""

from __future__ import annotations


class ByteLimiter:
    """Counts what is held.  Invariant: ``0 <= used_bytes <= limit_bytes``; ``peak_bytes`` never falls."""

    __slots__ = ("limit_bytes", "peak_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.peak_bytes = 0

    @property
    def available_bytes(self) -> int:
        """What can still be acquired."""
        return self.limit_bytes - self.used_bytes

    def fits(self, size_bytes: int) -> bool:
        """True if ``acquire(size_bytes)`` would succeed."""
        return size_bytes <= self.available_bytes

    def acquire(self, size_bytes: int) -> None:
        """Count ``size_bytes`` as held; the caller has asked :meth:`fits` and made room before."""
        if not self.fits(size_bytes):
            raise ValueError(f"{size_bytes} bytes do not fit: {self!r}")
        self.used_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)

    def release_all(self) -> None:
        """Nothing is held any more."""
        self.used_bytes = 0

    def __repr__(self) -> str:
        return f"<ByteLimiter {self.used_bytes} of {self.limit_bytes} bytes>"
