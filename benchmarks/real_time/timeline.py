"""What driver and shards did, and when: a file with a line of JSON for each event."""

from __future__ import annotations

import json
import os
import time
from typing import Any


class Timeline:
    """Appends events.  A line is written at once, so processes may share the file.

    Args:
        path: the file.
        fixed: what each event of this process says.
    """

    def __init__(self, path: str, **fixed: Any) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        self._fixed = fixed

    def __call__(self, event: str, at: float | None = None, **more: Any) -> None:
        """Write an event down, which is now if nothing else is said."""
        line = {"t": at or time.time(), "e": event, **self._fixed, **more}
        os.write(self._fd, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
