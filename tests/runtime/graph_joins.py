"""Joins for :mod:`graph_support`, and their model: all pairs, and when each row is over.

Odd values are the left side's, even ones the right one's.  What is handed on has the event time at which the orderly
stream has it go out, so nothing of it is late behind the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from graph_kinds import ROWS, Emitted, Model, Turn, split
from graph_support import TIME, Kind, Row, key_group
from mixedmode.runtime.operators.contract import EpochSpec, KeyedOperator
from mixedmode.runtime.operators.join.columns import LEFT, RIGHT, SIDE_COLUMN, TIME_COLUMN, side_column
from mixedmode.runtime.operators.join.definition import How, JoinedColumns, JoinKey, JoinSide, Sizes, TimeBounds
from mixedmode.runtime.operators.join.operator import JoinOperator
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from pyspark.sql.types import LongType, StringType, StructType, TimestampType


@dataclass(frozen=True)
class Joined(Kind):
    """Odd values beside even ones of the same key, at most so long before or after them."""

    how: How
    apart_ms: int
    #: Small pieces and chunks, so that all that is cut up is.
    sizes = Sizes(piece_rows=4, chunk_rows=3, inline_rows=2, read_rows=4, pair_rows=3)

    def operator(self, uid: str, *, follows: bool, in_order: bool) -> KeyedOperator:
        apart_us = self.apart_ms * 1000
        output = StructType().add("k", StringType())
        for name in ("mine", "theirs"):
            output = output.add(name, TimestampType()).add(f"{name}_v", LongType())
        made = JoinOperator(
            uid=uid,
            how=self.how,
            key=JoinKey(pa.schema([("__k0", pa.string())]), ("k",)),
            sides=(JoinSide(ROWS, "ts", apart_us), JoinSide(ROWS, "ts", apart_us)),
            bounds=TimeBounds(-apart_us, apart_us),
            residual=None,
            output=JoinedColumns(output, (("__l0", "__r0"), ("__l1",), ("__l2",), ("__r1",), ("__r2",))),
        )
        made.sizes = self.sizes
        return made

    def prepared(self, rows: list[dict[str, Any]], spec: EpochSpec) -> tuple[list[dict[str, Any]], pa.Schema]:
        made = []
        for row in rows:
            side = LEFT if row["v"] % 2 else RIGHT
            values = {side_column(side, place): row[name] for place, name in enumerate(ROWS.names)}
            made.append(
                {"__kg": key_group(row["k"]), "__k0": row["k"], SIDE_COLUMN: side, TIME_COLUMN: row["ts"], **values}
            )
        types = [pa.string(), TIME, pa.int64()]
        sides = [(side_column(side, place), of) for side in (LEFT, RIGHT) for place, of in enumerate(types)]
        key = [("__kg", pa.int32()), ("__k0", pa.string())]
        return made, pa.schema([*key, (SIDE_COLUMN, pa.int32()), (TIME_COLUMN, TIME), *sides])

    def handed_on(self, row: dict[str, Any]) -> Row:
        return self.out(row["k"], row["mine"], row["theirs"], row["mine_v"] is not None, row["theirs_v"] is not None)

    def out(self, key: Any, mine: int | None, theirs: int | None, has_mine: bool, has_theirs: bool) -> Row:
        """A pair when its later row comes; a row alone when it is over."""
        if has_mine and has_theirs:
            assert mine is not None
            assert theirs is not None
            time_us: int | None = max(mine, theirs)
        else:
            own_us = mine if has_mine else theirs
            time_us = None if own_us is None else own_us + (self.apart_ms + 1) * 1000
        return (key, time_us, 7 if time_us is None else time_us // 1000 % 7)

    def model(self) -> Model:
        return JoinModel(self)


class JoinModel(Model):
    """All rows that wait, and whether they have had a partner."""

    def __init__(self, kind: Joined) -> None:
        self.kind = kind
        self.waiting: list[list[Any]] = []

    def is_due(self) -> bool:
        return bool(self.waiting)

    def epoch(self, rows: Sequence[Emitted], turn: Turn) -> tuple[list[Emitted], list[Emitted]]:
        used, late = split(rows, turn.late_ms, lambda time_us: time_us < turn.late_ms * 1000)
        out = []
        for one in used:
            mine = [one.row, False]
            for other in self.waiting:
                if self.is_pair(one.row, other[0]):
                    mine[1] = other[1] = True
                    left, right = (one.row, other[0]) if one.row[2] % 2 else (other[0], one.row)
                    time_ms = max(left[1], right[1]) // 1000 - turn.delay_ms
                    time_ms = time_ms if turn.clock is None else min(time_ms, turn.clock[2])
                    row = self.kind.out(left[0], left[1], right[1], True, True)
                    out.append(Emitted(row, max(time_ms, turn.late_ms)))
            self.waiting.append(mine)
        outer = {"left": (1,), "right": (0,), "full": (0, 1)}.get(self.kind.how, ())
        over = [one for one in self.waiting if turn.firing_ms > MIN_WATERMARK and self.due_ms(one[0]) <= turn.firing_ms]
        for one in over:
            (k, time_us, value), has_partner = one
            self.waiting.remove(one)
            if value % 2 in outer and not has_partner:
                is_left = bool(value % 2)
                row = self.kind.out(k, time_us if is_left else None, None if is_left else time_us, is_left, not is_left)
                out.append(Emitted(row, max(self.due_ms((k, time_us, value)), turn.late_ms)))
        return out, late

    def is_pair(self, one: Row, other: Row) -> bool:
        if one[0] is None or one[0] != other[0] or one[2] % 2 == other[2] % 2 or one[1] is None or other[1] is None:
            return False
        return abs(one[1] - other[1]) <= self.kind.apart_ms * 1000

    def due_ms(self, row: Row) -> int:
        return MAX_WATERMARK if row[1] is None else row[1] // 1000 + self.kind.apart_ms + 1
