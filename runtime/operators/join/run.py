"""One execution of a join over one shard: rows of both sides in, pairs and rows without a partner out.

Invariants:
- A pair goes out in the epoch in which the later one of its rows comes, and in no other.
- A row without a partner goes out when its time is over (``JoinStep``), and is not in the state from then on.
- A key is in the state as long as any of its rows is; it has one timer, for the first time at which something of it has
  to go out, or else for the last one at which something has to go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.codec.byte_arrays import end_to_end
from ...protocols.event_time import MIN_WATERMARK
from ..admission import can_be_late, note_event_time, rows_in_time
from ..columnar.key_batches import DueKeys, KeyRows, Work, interleaved, work_of, works
from ..contract import ShardContext
from ..keyed.keyed_rows import micros_of
from .columns import LEFT, MATCHED_COLUMN, PAIR, RIGHT, SIDE_COLUMN, TIME_COLUMN
from .condition_check import ASKED_COLUMN, Answered, Candidates
from .definition import StreamJoin
from .input_pieces import KeyPiece, key_pieces, small_batches
from .join_context import JoinContext
from .join_step import JoinStep
from .state.chunks import Spool


class JoinRun:
    """Walks over the keys of a shard."""

    def __init__(self, operator: StreamJoin, context: ShardContext) -> None:
        self.operator = operator
        self.context = context
        self.epoch = context.epoch
        self.tools = JoinContext(operator, context)
        context.counters.rows_late_right = 0
        #: Of the one key whose rows come in parts.
        self._spool: Spool | None = None

    def execute(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Process all rows and all keys that are due."""
        due = self._due_keys()
        for piece in self._pieces(rows):
            self._piece(piece, due)
        for work in works(iter(()), due):
            self._whole(work)
        self.tools.cells.close(True)

    def questions(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows again, and what Spark is to be asked; nothing goes out, or into the state."""
        self.tools.only_asks = True
        due = self._due_keys()
        handed_on: deque[pa.RecordBatch] = deque()
        rows = small_batches(rows, self.tools.sizes.piece_bytes)
        first = next(rows, None)
        if first is None:
            return
        candidates = Candidates(self.operator, self.context, first.schema)
        self.tools.answers = candidates.ask

        def admitted() -> Iterator[pa.RecordBatch]:
            for batch in chain([first], rows):
                handed_on.append(candidates.rows(batch))
                found = self._admitted(batch)
                if found is not None:
                    yield found

        try:
            for piece in key_pieces(admitted(), self.operator.key_columns, self.tools.codec, self.tools.sizes):
                while handed_on:
                    yield handed_on.popleft()
                self._piece(piece, due)
                yield from candidates.of(piece)
            yield from handed_on
        finally:
            candidates.close()
            self.close()

    def close(self) -> None:
        """Give up what is on the local disk."""
        if self._spool is not None:
            self._spool.close()

    def _due_keys(self) -> DueKeys | None:
        if self.context.base is None or self.epoch.firing_watermark_ms == MIN_WATERMARK:
            return None
        return DueKeys(self.context.base, self.context.key_groups, self.epoch.firing_watermark_ms)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _pieces(self, rows: Iterator[pa.RecordBatch]) -> Iterator[KeyPiece]:
        """The rows as they belong together."""
        rows = small_batches(rows, self.tools.sizes.piece_bytes)
        first = next(rows, None)
        if first is None:
            return iter(())
        rows = chain([first], rows)
        if ASKED_COLUMN in first.schema.names:
            answered = Answered(self.operator, rows, self._admitted)
            self.tools.answers = answered.answers
            return answered.pieces()
        is_first_pass = MATCHED_COLUMN in first.schema.names
        assert is_first_pass or self.operator.residual is None, "Spark has not been asked about pairs"
        admitted = (found for found in map(self._admitted, rows) if found is not None)
        return key_pieces(admitted, self.operator.key_columns, self.tools.codec, self.tools.sizes)

    def _admitted(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Count rows, write those that are output already, and leave out those that change nothing."""
        counters = self.context.counters
        self.tools.makes_pairs = MATCHED_COLUMN not in batch.schema.names
        if not self.tools.makes_pairs and (made := pc.equal(batch.column(SIDE_COLUMN), PAIR)).true_count:
            self.tools.output.made(batch if made.true_count == batch.num_rows else batch.filter(made))
            batch = batch.filter(pc.invert(made))
        if batch.num_rows == 0:
            return None
        counters.rows_in += batch.num_rows
        late_ms = self.epoch.late_watermark_ms
        if can_be_late(late_ms):
            batch = self._in_time(batch, late_ms)
        if self.operator.input_times in batch.schema.names:  # not in a first pass, if it is another than the rows' own
            note_event_time(counters, batch.column(self.operator.input_times))
        kept = self._can_matter(batch)
        if kept is not None and not kept.all():
            batch = batch.filter(pa.array(kept))
        return batch if batch.num_rows else None

    def _in_time(self, batch: pa.RecordBatch, late_ms: int) -> pa.RecordBatch:
        in_time = rows_in_time(batch.column(TIME_COLUMN), late_ms)
        if in_time.true_count == batch.num_rows:
            return batch
        counters = self.context.counters
        counters.rows_late += batch.num_rows - in_time.true_count
        is_right = pc.equal(batch.column(SIDE_COLUMN), RIGHT)
        late_right = pc.and_not(is_right, in_time).true_count
        counters.rows_late_right = (counters.rows_late_right or 0) + late_right
        return batch.filter(in_time)

    def _can_matter(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """Which rows can meet a partner, or go out without one; None: all."""
        operator = self.operator
        kept: np.ndarray | None = None
        sides = batch.column(SIDE_COLUMN).to_numpy(zero_copy_only=False)
        if any(batch.column(name).null_count for name in operator.key_columns):
            # A key with a null equals none.
            kept = ~without_key(batch, operator.key_columns) | np.isin(sides, operator.outer_sides)
        if not self.tools.makes_pairs:
            stays = self.tools.due_ms(micros_of(batch.column(TIME_COLUMN)), sides) > self.epoch.firing_watermark_ms
            if operator.how == "leftsemi":
                matched = batch.column(MATCHED_COLUMN).to_numpy(zero_copy_only=False).astype(bool)
                stays &= ~(matched & (sides == LEFT))
            kept = stays if kept is None else kept & stays
        return kept

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _piece(self, piece: KeyPiece, due: DueKeys | None) -> None:
        """Process some keys, or a part of one."""
        if piece.rows is None:
            spool, self._spool = self._spool, None
            assert spool is not None
            self._last_of(spool)
            return
        if not piece.is_part:
            for work in interleaved(piece.rows, due) if due is not None else [self._all_of(piece.rows)]:
                self._whole(work)
            return
        work = self._all_of(piece.rows)
        if self._spool is None:
            self._spool = self._begun(work, due)
        JoinStep(self.tools, work, *_one(self._spool.head), self._spool).part()

    def _begun(self, work: Work, due: DueKeys | None) -> Spool:
        """A place for the rows of a key of which more come; what is due before it goes first."""
        group, key = int(work.groups[0]), work.keys[0].as_py()
        if due is not None:
            earlier = [*due.before(group), *due.within(group, key)]
            if earlier and earlier[-1][:2] == (group, key):
                earlier.pop()
            if earlier:
                self._whole(work_of(None, 0, 0, earlier))
        self.context.counters.keys += 1
        stored = None
        if self.context.base is not None:
            stored = self.context.base.get(self.tools.cells.names(work.groups, work.keys)[0])
        bare = work_of(None, 0, 0, [(group, key, 0)])
        return Spool(self.context.base, self.context.local_dir, stored, bare)

    def _all_of(self, rows: KeyRows) -> Work:
        return work_of(rows, 0, len(rows.groups), [])

    def _last_of(self, spool: Spool) -> None:
        """All rows of a key have come: what is over goes, and what is new is written."""
        try:
            if not self.tools.only_asks:
                JoinStep(self.tools, spool.key, *_one(spool.head), spool).whole()
        finally:
            spool.close()

    def _whole(self, work: Work) -> None:
        self.context.counters.keys += len(work.touched)
        if self.tools.only_asks and work.batch is None:
            return
        names = self.tools.cells.names(work.groups, work.keys)
        JoinStep(self.tools, work, *self.tools.cells.read(names), None).whole()


def without_key(batch: pa.RecordBatch, key_columns: tuple[str, ...]) -> np.ndarray:
    """Which rows have a key with a null."""
    found = np.zeros(batch.num_rows, dtype=bool)
    for name in key_columns:
        found |= batch.column(name).is_null().to_numpy(zero_copy_only=False)
    return found


def _one(value: bytes | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As :meth:`Cells.read`, of one value."""
    return np.array([value is not None]), *end_to_end([] if value is None else [value])
