"""Asks Spark about pairs, and reads its answers: in one stream, with the rows.

A condition beside equal keys and bounds of event times is Spark's to evaluate.  So in the same Spark task a first
function hands the rows on, and behind those that belong together their candidates: the pairs within bounds, with the
columns that the condition reads.  Spark evaluates it, and a second function does with the rows what a join does, finds
the same candidates in the same order, and takes the answers.  Spark cuts the stream into batches as it likes, so where
rows belong together is said in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.keys.keys import KeyCodec
from ...support.arrow_columns import typed
from ...support.batch_spool import BatchSpool
from ..columnar.key_batches import Work, key_rows
from ..contract import ShardContext
from ..keyed.keyed_rows import KEY_GROUP_COLUMN
from .definition import StreamJoin
from .input_pieces import KeyPiece
from .state.row_pool import RowPool

#: Null for a row; ``_CANDIDATE``; or how many rows belong together, times four, and what they are.
ASKED_COLUMN = "__asked"
_CANDIDATE = -1
_WHOLE, _PART, _END = 0, 1, 2
#: Whether a candidate is a pair.
ANSWER_COLUMN = "__answer"
#: What of the candidates of rows that belong together stays in memory.
_MEMORY_BYTES = 16 * 1024 * 1024


def is_candidate() -> str:
    """As SQL."""
    return f"{ASKED_COLUMN} = {_CANDIDATE}L"


class Candidates:
    """Collects the candidates of rows that belong together.

    Args:
        operator: the join.
        context: of the shard.
        schema: of the rows that come.
    """

    def __init__(self, operator: StreamJoin, context: ShardContext, schema: pa.Schema) -> None:
        self._operator = operator
        self._context = context
        self._schema = schema.append(pa.field(ASKED_COLUMN, pa.int64()))
        self._spool: BatchSpool | None = None

    def ask(self, pool: RowPool, left: np.ndarray, right: np.ndarray, work: Work, keys: np.ndarray) -> np.ndarray:
        """Take candidates down; nothing is known of them yet."""
        if self._spool is None:
            self._spool = BatchSpool(self._context.local_dir, self._schema, _MEMORY_BYTES)
        columns: dict[str, pa.Array] = {}
        for side, rows in enumerate((left, right)):
            columns.update(zip(self._operator.sides[side].columns(side), pool.columns(side, rows), strict=True))
        assert self._operator.residual is not None
        reads = self._operator.residual.reads
        columns = {name: column for name, column in columns.items() if name in reads}
        columns[KEY_GROUP_COLUMN] = pa.array(work.groups[keys].astype(np.int32))
        columns[ASKED_COLUMN] = pa.array(np.full(len(left), _CANDIDATE))
        self._spool.write(_row_like(self._schema, columns, len(left)))
        return np.zeros(len(left), dtype=bool)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as they are handed on."""
        return _row_like(self._schema, dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)

    def of(self, piece: KeyPiece) -> Iterator[pa.RecordBatch]:
        """What rows belong together, and their candidates so far."""
        count = 0 if piece.rows is None else piece.rows.batch.num_rows
        kind = _END if piece.rows is None else _PART if piece.is_part else _WHOLE
        said = {ASKED_COLUMN: pa.array([count * 4 + kind]), KEY_GROUP_COLUMN: pa.array([self._group], pa.int32())}
        yield _row_like(self._schema, said, 1)
        spool, self._spool = self._spool, None
        if spool is not None:
            try:
                spool.finish()
                yield from spool.read()
            finally:
                spool.close()

    @property
    def _group(self) -> int:
        return self._context.key_groups.first

    def close(self) -> None:
        """Forget what has not been handed on."""
        if self._spool is not None:
            self._spool.close()


class Answered:
    """The stream with its answers, taken apart again.

    Args:
        operator: the join.
        batches: the stream.
        admit: what is done with rows before they belong together; None: none of them are left.
    """

    def __init__(
        self,
        operator: StreamJoin,
        batches: Iterator[pa.RecordBatch],
        admit: Callable[[pa.RecordBatch], pa.RecordBatch | None],
    ) -> None:
        self._operator = operator
        self._codec = KeyCodec(operator.key_schema)
        self._batches = batches
        self._admit = admit
        self._rows: deque[pa.RecordBatch] = deque()
        self._said: deque[int] = deque()
        self._answers: deque[np.ndarray] = deque()

    def pieces(self) -> Iterator[KeyPiece]:
        """The rows, as they belong together."""
        while self._said or self._read():
            if not self._said:
                continue
            count, kind = divmod(self._said.popleft(), 4)
            if kind == _END:
                yield KeyPiece(None, True)
                continue
            taken = pa.concat_batches(list(self._taken(count)))
            yield KeyPiece(key_rows(taken, self._operator.key_columns, self._codec), kind == _PART)

    def answers(self, pool: RowPool, left: np.ndarray, right: np.ndarray, work: Work, keys: np.ndarray) -> np.ndarray:
        """Which of the next candidates are pairs."""
        found, missing = [], len(left)
        while missing:
            if not self._answers:
                if not self._read():
                    raise AssertionError(f"{missing} of {len(left)} candidates have got no answer")
                continue
            some = self._answers.popleft()
            if len(some) > missing:
                self._answers.appendleft(some[missing:])
                some = some[:missing]
            found.append(some)
            missing -= len(some)
        return np.concatenate(found) if found else np.zeros(0, dtype=bool)

    def _taken(self, count: int) -> Iterator[pa.RecordBatch]:
        while count:
            batch = self._rows.popleft()
            if batch.num_rows > count:
                self._rows.appendleft(batch.slice(count))
                batch = batch.slice(0, count)
            count -= batch.num_rows
            yield batch

    def _read(self) -> bool:
        """Take one more batch apart; False: there is none."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        asked = batch.column(ASKED_COLUMN)
        is_row = asked.is_null()
        if is_row.true_count:
            rows = batch if is_row.true_count == batch.num_rows else batch.filter(is_row)
            admitted = self._admit(rows.drop_columns([ASKED_COLUMN, ANSWER_COLUMN]))
            if admitted is not None and admitted.num_rows:
                self._rows.append(admitted)
        if is_row.true_count < batch.num_rows:
            others = pc.fill_null(asked, _CANDIDATE - 1).to_numpy(zero_copy_only=False)
            self._said.extend(others[others >= 0].tolist())
            candidates = others == _CANDIDATE
            if candidates.any():
                answers = pc.fill_null(batch.column(ANSWER_COLUMN), False).to_numpy(zero_copy_only=False)
                self._answers.append(answers[candidates].astype(bool))
        return True


def _row_like(schema: pa.Schema, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    arrays = (columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema)
    return pa.RecordBatch.from_arrays(list(map(typed, arrays, schema.types)), schema=schema)
