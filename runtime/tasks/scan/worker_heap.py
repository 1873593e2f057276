"""The C heap of a Python worker, kept while tasks scan and merge.

By default glibc gives large blocks back to the system as soon as they are freed, and the system clears each page that
it hands out again.  Arrays of millions of rows come and go so often that this was a third of a scan's CPU time.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any

#: Parameters of ``mallopt``, and what they are otherwise: as far as glibc raises them by itself, which it stops doing
#: once they have been set.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_OTHERWISE = {_TRIM_THRESHOLD: 64 << 20, _MMAP_THRESHOLD: 32 << 20, _MMAP_MAX: 65_536}
_NEVER = 2**31 - 1


@cache
def _glibc() -> Any:
    """The C library; None: it is another one, which has no such parameters."""
    if platform.libc_ver()[0] != "glibc":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


class _Heap:
    """Of this process."""

    is_kept = False


def keep_heap() -> None:
    """Keep what is freed from now on for what is needed next."""
    library = _glibc()
    if library is not None and not _Heap.is_kept:
        library.mallopt(_TRIM_THRESHOLD, _NEVER)
        library.mallopt(_MMAP_MAX, 0)
        _Heap.is_kept = True


def release_heap() -> None:
    """Give back to the system what is free, now and from now on; nothing is done unless it was kept."""
    library = _glibc()
    if library is not None and _Heap.is_kept:
        _Heap.is_kept = False
        for parameter, value in _OTHERWISE.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)
