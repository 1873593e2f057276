"""What a run has put out: by a function that is idempotent by its id, and what readers of the folders see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import support

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def idempotent(folder: Path, name: str) -> Callable[[DataFrame, int], None]:
    """A function for ``foreachBatch`` that keeps the rows of each id in one file.

    Args:
        folder: where.
        name: tells ids of one location from those of another.
    """

    def keep(rows: DataFrame, number: int) -> None:
        folder.mkdir(exist_ok=True)
        path, hidden = folder / f"{name}-{number:08d}.parquet", folder / f".{name}-{number:08d}"
        pq.write_table(rows.toArrow(), hidden)
        if path.exists() and _rows(path) != _rows(hidden):
            raise AssertionError(f"delivery {number} has come again with other rows: {path}, {hidden}")
        hidden.rename(path)

    return keep


def committed(folder: Path, *, last_only: bool) -> list[tuple[Any, ...]]:
    """All rows in the output folders of a run.

    Args:
        folder: of the run.
        last_only: of the rows of one key and window, those of the last delivery count.
    """
    outs = sorted(folder.glob("out-*"))
    if not last_only:
        return [row for out in outs for row in support.committed(out)]
    last: dict[str, tuple[Any, ...]] = {}
    for path in sorted((path for out in outs for path in out.glob("[!.]*.parquet")), key=lambda path: path.name):
        delivered = {repr(row[:2]): row for row in _rows(path)}
        if len(delivered) < pq.read_metadata(path).num_rows:
            raise AssertionError(f"a delivery has several rows of one key: {path}")
        last.update(delivered)
    return list(last.values())


def _rows(path: Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in pq.read_table(path).to_pylist()), key=repr)
