"""The Spark tasks that send: each a lane, or some lanes one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ....support.ids import JobId
from .client import Client
from .markers import transactional_id
from .messages import MessageColumns
from .send_lanes import SendLane
from .sender import BYTES_PER_TRANSACTION, Sender, SendPiece

#: What tasks tell of themselves.
SENT_SCHEMA = "lane int, messages bigint"
#: Rows that are read at once, if they are small.
_BATCH_ROWS = 8_192


@dataclass(frozen=True)
class SendTask:
    """What all lanes of a transaction have in common."""

    config: Mapping[str, str]
    columns: MessageColumns
    job_id: JobId
    branch: int
    token: str
    #: How many are enough for a transaction.
    rows: int
    #: Those that were sent before it, as far as lanes have markers of them; None: not known.
    known: frozenset[str] | None = None

    def sender(self, lane: int, end: int) -> Sender:
        """Who sends a lane."""
        name = transactional_id(self.job_id, lane)
        connect = partial(Client, self.config, name, self.columns)
        return Sender(connect, self.branch, self.token, end, self.rows, self.known)


@dataclass(frozen=True)
class FileTask:
    """The function handed to ``mapInArrow``: sends lanes as they are staged; a row is the place of one."""

    common: SendTask
    filesystem: fs.FileSystem
    folder: str
    lanes: tuple[SendLane, ...]
    #: The staged columns, as the output has them.
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in [place for batch in batches for place in batch.column(0).to_pylist()]:
            lane = self.lanes[place]
            sender = self.common.sender(lane.number, lane.rows)
            yield _counted(lane.number, sender.send(partial(self.pieces, lane)))

    def pieces(self, lane: SendLane, position: int) -> Iterator[SendPiece]:
        """A lane's rows, from the file on that has a position."""
        starts = lane.starts
        first = bisect_right(starts, position) - 1
        for file, start in list(zip(lane.files, starts, strict=True))[first:]:
            with self.filesystem.open_input_file(f"{self.folder}/{file.name}") as stream:
                staged = pq.ParquetFile(stream)
                for batch in staged.iter_batches(min(_rows_at_once(staged.metadata), self.common.rows)):
                    yield SendPiece(batch.select(list(self.names)), range(start, start + batch.num_rows))
                    start += batch.num_rows


@dataclass(frozen=True)
class RowTask:
    """The same for rows that Spark has chosen among those staged; their last columns are lane and position.

    A partition has the rows of one lane, in the order of their positions.
    """

    common: SendTask
    #: Where lanes end.
    ends: Mapping[int, int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is not None:
            lane = first.column(first.num_columns - 2)[0].as_py()
            sender = self.common.sender(lane, self.ends[lane])
            yield _counted(lane, sender.send(lambda _: self._pieces(first, rows)))

    def _pieces(self, first: pa.RecordBatch, others: Iterable[pa.RecordBatch]) -> Iterator[SendPiece]:
        for rows in (first, *others):
            positions = rows.column(rows.num_columns - 1).to_pylist()
            yield SendPiece(rows.select(range(rows.num_columns - 2)), positions)


def _rows_at_once(file: pq.FileMetaData) -> int:
    """Fewer where rows are large."""
    size_bytes = sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))
    return max(1, min(_BATCH_ROWS, BYTES_PER_TRANSACTION * file.num_rows // max(1, size_bytes)))


def _counted(lane: int, messages: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([lane], pa.int32()), pa.array([messages], pa.int64())], ["lane", "messages"]
    )
