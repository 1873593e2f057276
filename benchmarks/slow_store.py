"""An object store that is far away: files on the local disk, and every request takes its time."""

from __future__ import annotations

import time
from typing import Any

from counted_store import CountedStore


class SlowStore(CountedStore):
    """Takes so long for each request.

    Args:
        request_s: seconds.
    """

    def __init__(self, request_s: float) -> None:
        super().__init__()
        self._request_s = request_s

    def __reduce__(self) -> Any:
        return SlowStore, (self._request_s,)

    def _count(self, what: str) -> None:
        super()._count(what)
        time.sleep(self._request_s)

    def get_type_name(self) -> str:
        return "slow"
