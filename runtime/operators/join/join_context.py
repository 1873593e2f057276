"""Holds what all parts of one execution of a join over one shard share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....state.keys.keys import KeyCodec
from ...protocols.event_time import MAX_WATERMARK
from ..columnar.cells import ShardCells
from ..columnar.key_batches import Work
from ..contract import ShardContext
from ..keyed.keyed_rows import NO_TIME
from .columns import LEFT, RIGHT
from .definition import StreamJoin
from .output import JoinOutput
from .state.chunks import HEAD_SLOT, ChunkStore
from .state.row_pool import RowPool, SideForm

#: Given a pool, the left and the right row of each pair, the keys and their places: which pairs are ones.
Answers = Callable[[RowPool, np.ndarray, np.ndarray, Work, np.ndarray], np.ndarray]
#: So that sums of event times and retentions stay within 64 bits.
_FAR_US = 2**61


class JoinContext:
    """The join, the epoch, and what reads and writes."""

    def __init__(self, operator: StreamJoin, context: ShardContext) -> None:
        self.operator = operator
        self.context = context
        self.epoch = context.epoch
        self.sizes = operator.sizes
        self.codec = KeyCodec(operator.key_schema)
        self.forms = [SideForm(place, side) for place, side in enumerate(operator.sides)]
        self.output = JoinOutput(operator, context)
        self.cells = ShardCells(context, HEAD_SLOT)
        self.shelf = ChunkStore(context.base)
        #: By side: whether rows without a partner go out.
        self.is_outer = np.isin([LEFT, RIGHT], operator.outer_sides)
        self.is_semi = operator.how == "leftsemi"
        #: Asks which pairs meet the rest of the condition; None: all do.
        self.answers: Answers | None = None
        #: True: only the questions are wanted.
        self.only_asks = False
        #: False in the first pass of a backlog, whose pairs have been made.
        self.makes_pairs = True

    def due_ms(self, times_us: np.ndarray, sides: np.ndarray) -> np.ndarray:
        """The watermark at which each row is over; MAX: at the end of all input."""
        due_ms = np.full(len(times_us), MAX_WATERMARK)
        for side, one in enumerate(self.operator.sides):
            if one.keep_us is None:
                continue
            keep_us = max(-_FAR_US, min(one.keep_us, _FAR_US))
            at = (sides == side) & (times_us != NO_TIME)
            # A row is over when the watermark is past what it waits for, not at it.
            due_ms[at] = (np.clip(times_us[at], -_FAR_US, _FAR_US) + keep_us) // 1000 + 1
        return due_ms
