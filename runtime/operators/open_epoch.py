"""An epoch of a shard whose rows come in portions, as in Real-Time Mode, and what an operator does in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa


class OpenEpoch(Protocol):
    """Takes portions of rows, each in the order of keys, and ends with what is due by the watermark."""

    def take(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Process some rows, and output what comes of them."""

    def finish(self) -> None:
        """Behind all rows: fire what is due, and write what has changed."""
