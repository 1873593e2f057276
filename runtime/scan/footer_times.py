"""The number of rows of Parquet files and the greatest time in a column of them, by what their footers say.

That takes no Spark job.  Where a row group says nothing of the column, where rows are left out, or where files are more
than a few, nothing is said here, and Spark has to look at the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from ..catalyst.spark_plans import united
from ..storage.filesystem import resolve
from .parquet_scan import NotTakenError, ScanColumn, check_footer
from .row_scans import recognised_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: More files are read faster by Spark's tasks.
_MOST_FILES, _AT_ONCE = 64, 8


@dataclass(frozen=True)
class FooterTimes:
    """What the footers of one part of a frame say."""

    rows: int
    #: In microseconds; None: all are null.
    greatest_us: int | None
    #: The value of the column that tells parts apart; None: nobody has asked.
    part: Any


def footer_times(frame: DataFrame, time: str, part_column: str | None) -> list[FooterTimes] | None:
    """What footers say of each part that a frame is the union of; None: they do not say enough.

    Args:
        frame: the frame.
        time: the column with times.
        part_column: a column that is the same in all rows of a part; None: there is none.
    """
    constants = () if part_column is None else (part_column,)
    try:
        found = []
        for part in united(frame):
            scan = recognised_rows(part, (time,), (), constants)
            if scan.condition is not None or len(scan.uris) > _MOST_FILES:
                return None
            value = None if part_column is None else scan.constants[part_column]
            found.append(_of_files(scan.uris, scan.scan.columns, value))
        return found
    except (NotTakenError, OSError, ValueError, pa.ArrowException):
        return None  # Spark says what is wrong, or that nothing is


def _of_files(uris: Sequence[str], columns: tuple[ScanColumn, ...], part: Any) -> FooterTimes:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda uri: _of_file(uri, columns), uris))
    times = [time for _, time in found if time is not None]
    return FooterTimes(sum(rows for rows, _ in found), max(times, default=None), part)


def _of_file(uri: str, columns: tuple[ScanColumn, ...]) -> tuple[int, int | None]:
    filesystem, path = resolve(unquote(uri))
    with filesystem.open_input_file(path) as source:
        file = pq.ParquetFile(source)
        if check_footer(file, columns, path):
            raise NotTakenError(f"{path} has times as INT96, of which footers say nothing")
        metadata, name = file.metadata, columns[0].name
    greatest: int | None = None
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
            continue
        chunk = next(one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == name)
        statistics = chunk.statistics
        if statistics is None or (not statistics.has_min_max and statistics.null_count != chunk.num_values):
            raise NotTakenError(f"{path} does not say how far column {name} goes")
        if statistics.has_min_max:
            greatest = statistics.max_raw if greatest is None else max(greatest, statistics.max_raw)
    return metadata.num_rows, greatest
