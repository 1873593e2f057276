"""An epoch of a shard whose rows come in portions, as in Real-Time Mode, and what an operator does in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from ...state.store.files import SortedStateWriter


class OpenEpoch(Protocol):
    """Takes portions of rows, each in the order of keys, and ends with what is due by the watermark."""

    def take(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Process some rows, and output what comes of them."""

    @property
    def unwritten_keys(self) -> int:
        """About how many keys have changed since changes were written."""

    def write_changes(self, writer: SortedStateWriter) -> None:
        """Between two portions: write what has changed since the last call."""

    def finish(self) -> None:
        """Behind all rows: fire what is due, and write what has changed since changes were written."""
