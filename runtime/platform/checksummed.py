"""Small files that must not be read with a wrong bit: a line with the checksum, then the content.

For files whose every field matters and that nothing else vouches for; ``_metadata`` carries its own checksum, state
files have theirs in ``_metadata``.
"""

from __future__ import annotations

import hashlib


def seal(content: bytes) -> bytes:
    """The content with its checksum before it."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def unseal(data: bytes) -> bytes:
    """Inverse of :func:`seal`; a ValueError if a bit of it is not as it was written."""
    digest, separator, content = data.partition(b"\n")
    # An empty content lacks nothing but the separator when its file is cut off by one byte.
    if not separator or hashlib.sha256(content).hexdigest().encode() != digest:
        raise ValueError("the file was altered or cut off: it does not match its checksum")
    return content
