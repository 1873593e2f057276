"""Tests of sorter.limiter."""

from __future__ import annotations

import pytest
from mixedmode.sorter.limiter import ByteLimiter


def test_acquired_bytes_are_used() -> None:
    """What was acquired counts against the limit until it is released; the peak stays."""
    limiter = ByteLimiter(100)
    limiter.acquire(60)
    limiter.acquire(30)

    assert (limiter.used_bytes, limiter.available_bytes) == (90, 10)

    limiter.release_all()

    assert (limiter.used_bytes, limiter.available_bytes, limiter.peak_bytes) == (0, 100, 90)


def test_limit_itself_fits() -> None:
    """Exactly the limit fits, one byte more does not."""
    limiter = ByteLimiter(100)

    assert limiter.fits(100)
    assert not limiter.fits(101)


def test_acquiring_too_much_is_an_error() -> None:
    """Acquiring what does not fit raises and changes nothing."""
    limiter = ByteLimiter(100)
    limiter.acquire(80)

    with pytest.raises(ValueError, match="21 bytes do not fit: <ByteLimiter 80 of 100 bytes>"):
        limiter.acquire(21)
    assert limiter.used_bytes == 80
