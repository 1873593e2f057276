"""Joins some keys at once: new rows meet stored ones and each other, expired ones go out unmatched and are removed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ....state.codec.byte_arrays import end_to_end
from ...protocols.event_time import MIN_WATERMARK
from ..binary_search import first_at_least
from ..columnar.key_batches import Work
from ..keyed.keyed_rows import NO_TIME
from .columns import LEFT, RIGHT
from .join_context import JoinContext
from .kept_rows import keep
from .loaded_keys import LoadedKeys
from .pairing import PairingRows, SideRows, covered, in_bounds, pairs_of, partner_times, side_of, slices_of
from .semi_join_matches import SemiJoinMatches
from .state.blocks import NEVER, decode_blocks
from .state.chunks import CHUNK_SLOT, MARK_SLOT, Spool, packed
from .state.row_pool import RowPool
from .state_writes import write_kept


class JoinStep:
    """One go at some keys.

    Args:
        tools, work, exists, data, offsets: as of :class:`LoadedKeys`.
        spool: of the one key whose rows come in parts; None: they do not.
    """

    def __init__(
        self,
        tools: JoinContext,
        work: Work,
        exists: np.ndarray,
        data: np.ndarray,
        offsets: np.ndarray,
        spool: Spool | None,
    ) -> None:
        self._tools = tools
        self._operator = tools.operator
        self._spool = spool
        self._shelf = tools.shelf if spool is None else spool
        self._late_ms = tools.epoch.late_watermark_ms
        self._hand = LoadedKeys(tools, work, exists, data, offsets)

    def part(self) -> None:
        """Of a key of which more rows come: nothing goes yet."""
        assert self._spool is not None
        self._meet_all()
        kept = keep(
            self._hand,
            self._tools,
            np.ones(len(self._hand.old), bool),
            np.ones(len(self._hand.new), bool),
            is_part=True,
        )
        for name, value in zip(kept.chunk_names, kept.chunk_values, strict=True):
            self._spool.put(name, value)
        self._spool.marks.update(self._hand.marks)
        self._spool.head = kept.heads[0]

    def whole(self) -> None:
        """All rows that the epoch has of these keys are there."""
        if self._tools.only_asks:
            self._meet_all()
            return
        self._hand.firing_ms = self._tools.epoch.firing_watermark_ms
        self._meet_all()
        due_old = self._tools.due_ms(self._hand.old.times_us, self._hand.old.sides)
        due_new = self._tools.due_ms(self._hand.new.times_us, self._hand.new.sides)
        if self._hand.firing_ms > MIN_WATERMARK:
            self._put_out_unmatched(self._hand.pool, self._hand.old, due_old)
            self._put_out_unmatched(self._hand.pool, self._hand.new, due_new)
        if not self._tools.epoch.keep_state:
            return
        stays_old, stays_new = self._stays(self._hand.old, due_old), self._stays(self._hand.new, due_new)
        kept = keep(self._hand, self._tools, stays_old, stays_new, is_part=False)
        write_kept(self._hand, self._tools, kept, self._spool)

    def _live(self, rows: PairingRows) -> np.ndarray | None:
        """The places of those that were not over before this epoch; None: all."""
        if self._late_ms == MIN_WATERMARK or not len(rows):
            return None
        live = self._tools.due_ms(rows.times_us, rows.sides) > self._late_ms
        return None if live.all() else np.flatnonzero(live)

    # -- pairs ---------------------------------------------------------------------------------------------------------

    def _meet_all(self) -> None:
        """New rows meet their partners, wherever these are."""
        firsts = SemiJoinMatches(self._tools.is_semi)
        news = [side_of(self._hand.new, side, self._hand.count) for side in (LEFT, RIGHT)]
        if self._tools.makes_pairs and len(self._hand.new):
            live = self._live(self._hand.old)
            old = self._hand.old if live is None else self._hand.old.where(live)
            olds = [side_of(old, side, self._hand.count) for side in (LEFT, RIGHT)]
            self._meet(self._hand.pool, self._hand.new, news[LEFT], old, olds[RIGHT], firsts)
            self._meet(self._hand.pool, self._hand.new, news[LEFT], self._hand.new, news[RIGHT], firsts)
            if self._tools.is_semi:
                self._meet(self._hand.pool, old, olds[LEFT], self._hand.new, news[RIGHT], firsts)
            else:
                self._meet(self._hand.pool, self._hand.new, news[RIGHT], old, olds[LEFT], firsts)
            self._put_out_partnered(self._hand.pool, old, firsts)
            if live is not None:
                self._hand.old.matched[live] = old.matched
        for entries in self._needed(news):
            self._meet_chunks(entries, news, firsts)
        self._put_out_partnered(self._hand.pool, self._hand.new, firsts)

    def _meet(
        self,
        pool: RowPool,
        own: PairingRows,
        rows: SideRows,
        their: PairingRows,
        others: SideRows,
        firsts: SemiJoinMatches,
    ) -> None:
        """Some rows meet some of the other side.

        Args:
            pool: has both.
            own: what ``rows`` are taken from.
            rows: of one side.
            their: what ``others`` are taken from.
            others: of the other side.
            firsts: of a semi join, the first partners.
        """
        if not len(rows) or not len(others):
            return
        one = rows.rows
        low, high = in_bounds(one.keys, one.times_us, rows.side, others, self._operator.bounds)
        if self._hand.has_null is not None:
            high = np.where(self._hand.has_null[one.keys], low, high)
        if not (high > low).any():
            return
        asks = self._tools.answers
        if asks is None and self._tools.is_semi:
            hit = np.flatnonzero(high > low)
            firsts.note(own, rows.places[hit], np.maximum(one.times_us[hit], others.rows.times_us[low[hit]]))
            return
        if asks is None:
            if self._tools.is_outer[rows.side]:
                own.matched[rows.places[high > low]] = True
            if self._tools.is_outer[others.side]:
                their.matched[others.places[covered(low, high, len(others))]] = True
        for here, there in self._some_pairs(pool, one, others.rows, low, high):
            mine, theirs = one.numbers[here], others.rows.numbers[there]
            left, right = (mine, theirs) if rows.side == LEFT else (theirs, mine)
            keys = one.keys[here]
            times_us = np.maximum(one.times_us[here], others.rows.times_us[there])
            if asks is not None:
                true = np.flatnonzero(asks(pool, left, right, self._hand.work, keys))
                here, there, left, right = here[true], there[true], left[true], right[true]
                keys, times_us = keys[true], times_us[true]
                if self._tools.is_semi:
                    firsts.note(own, rows.places[here], times_us)
                    continue
                own.matched[rows.places[here]] = True
                their.matched[others.places[there]] = True
            self._tools.output.pairs(pool, left, right, times_us, keys, self._key_columns)

    def _some_pairs(
        self, pool: RowPool, rows: PairingRows, others: PairingRows, low: np.ndarray, high: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As :func:`pairs_of`, so many bytes at a time."""
        one_bytes, other_bytes = pool.sizes[rows.numbers], pool.sizes[others.numbers]
        sizes = self._tools.sizes
        for here, there in pairs_of(low, high, sizes.pair_rows):
            for some in slices_of(one_bytes[here] + other_bytes[there], sizes.pair_rows, sizes.pair_bytes):
                yield here[some], there[some]

    def _some(self, pool: RowPool, numbers: np.ndarray) -> Iterator[slice]:
        """Cut rows that go out."""
        yield from slices_of(pool.sizes[numbers], self._tools.sizes.pair_rows, self._tools.sizes.pair_bytes)

    def _key_columns(self, places: np.ndarray) -> dict[str, pa.Array]:
        """The key columns of keys by place."""
        work, names = self._hand.work, self._operator.key_columns
        if work.batch is not None:
            first = np.full(len(work), -1)
            first[work.touched] = work.starts
            rows = first[places]
            if (rows >= 0).all():
                taken = pa.array(rows)
                return {name: work.batch.column(name).take(taken) for name in names}
        encoded = self._hand.work.keys.take(pa.array(places)).to_numpy(zero_copy_only=False).tolist()
        return dict(zip(self._operator.key_columns, self._tools.codec.decode_columns(encoded), strict=True))

    def _put_out_partnered(self, pool: RowPool, rows: PairingRows, firsts: SemiJoinMatches) -> None:
        """Left rows of a semi join go out with their first partner."""
        taken = firsts.taken(rows)
        if taken is None:
            return
        at, times_us = taken
        for some in self._some(pool, rows.numbers[at]):
            found = rows.where(at[some])
            self._tools.output.partnered(pool, found.numbers, times_us[some], found.keys, self._key_columns)

    def _put_out_unmatched(
        self, pool: RowPool, rows: PairingRows, due_ms: np.ndarray, has: np.ndarray | None = None
    ) -> None:
        """Rows of outer sides that are over and unmatched go out, with nulls for the other side; ``has``: which may."""
        alone = ~rows.matched & (due_ms <= self._hand.firing_ms) & self._tools.is_outer[rows.sides]
        if has is not None:
            alone &= has
        for side in self._operator.outer_sides:
            at = np.flatnonzero(alone & (rows.sides == side))
            for some in self._some(pool, rows.numbers[at]):
                few = at[some]
                self._tools.output.alone(pool, side, rows.numbers[few], due_ms[few], rows.keys[few], self._key_columns)

    # -- chunks --------------------------------------------------------------------------------------------------------

    def _needed(self, news: list[SideRows]) -> Iterator[np.ndarray]:
        """The chunks that new rows may have partners in, or that have rows which go out; so many at a time."""
        keys, entries = self._hand.directory.keys, self._hand.directory.entries
        if not len(entries):
            return
        needed = np.zeros(len(entries), dtype=bool)
        if self._tools.makes_pairs:
            for side in (LEFT, RIGHT):
                at = np.flatnonzero(entries["side"] == side)
                needed[at] = self._may_meet(news[1 - side], keys[at], entries[at], side)
            # What was over before this epoch has no partners.
            needed &= self._tools.due_ms(entries["greatest"], entries["side"]) > self._late_ms
        # In the same pieces whether pairs are asked for or made: what goes out comes after them.
        yield from self._so_many(np.flatnonzero(needed))
        if self._hand.firing_ms > MIN_WATERMARK:
            is_due = self._tools.due_ms(entries["open"], entries["side"]) <= self._hand.firing_ms
            is_due &= (entries["open"] != NEVER) & self._tools.is_outer[entries["side"]]
            yield from self._so_many(np.flatnonzero(is_due & ~needed))

    def _so_many(self, at: np.ndarray) -> Iterator[np.ndarray]:
        rows = self._hand.directory.entries["rows"][at].astype(np.int64)
        for some in slices_of(rows, self._tools.sizes.read_chunks, self._tools.sizes.read_rows):
            yield at[some]

    def _may_meet(self, news: SideRows, keys: np.ndarray, entries: np.ndarray, side: int) -> np.ndarray:
        low, high = news.starts[keys], news.starts[keys + 1]
        bounds = self._operator.bounds
        if (bounds.least_us is None and bounds.greatest_us is None) or not len(news):
            return high > low
        least, greatest = entries["least"].astype(np.int64), entries["greatest"].astype(np.int64)
        earliest, latest = partner_times(least, side, bounds)[0], partner_times(greatest, side, bounds)[1]
        times_us = news.rows.times_us
        low = first_at_least(times_us, low, high, earliest)
        found: np.ndarray = (first_at_least(times_us, low, high, latest + 1) > low) & (least != NO_TIME)
        return found

    def _meet_chunks(self, at: np.ndarray, news: list[SideRows], firsts: SemiJoinMatches) -> None:
        keys, entries = self._hand.directory.keys[at], self._hand.directory.entries[at]
        ids = self._hand.cell_names(at, CHUNK_SLOT)
        values = self._shelf.read(ids)
        blocks = decode_blocks(*end_to_end(values))
        matched = blocks.matched.copy()
        bounds = np.concatenate([[0], np.cumsum(entries["rows"].astype(np.int64))])
        marked = np.flatnonzero(entries["marked"])
        for place, mark in zip(
            marked.tolist(), self._shelf.read(self._hand.cell_names(at[marked], MARK_SLOT)), strict=True
        ):
            start, stop = int(bounds[place]), int(bounds[place + 1])
            bits = np.frombuffer(mark, dtype=np.uint8)
            matched[start:stop] = np.unpackbits(bits, count=stop - start).astype(bool)
        pool = self._hand.pool.with_records(blocks.records)
        numbers = blocks.places + pool.first_record
        stored = PairingRows(keys[blocks.blocks], blocks.times_us, blocks.sides, matched, numbers)
        before = matched.copy()
        if self._tools.makes_pairs and len(self._hand.new):
            order = np.lexsort((stored.times_us, stored.keys))
            live = self._live(stored.where(order))
            order = order if live is None else order[live]
            rows = stored.where(order)
            sides = [side_of(rows, side, self._hand.count) for side in (LEFT, RIGHT)]
            self._meet(pool, self._hand.new, news[LEFT], rows, sides[RIGHT], firsts)
            if self._tools.is_semi:
                self._meet(pool, rows, sides[LEFT], self._hand.new, news[RIGHT], firsts)
            else:
                self._meet(pool, self._hand.new, news[RIGHT], rows, sides[LEFT], firsts)
            self._put_out_partnered(pool, rows, firsts)
            stored.matched[order] = rows.matched
        due_ms = self._tools.due_ms(stored.times_us, stored.sides)
        has = stored.times_us >= entries["open"][blocks.blocks]
        if self._hand.firing_ms > MIN_WATERMARK:
            self._put_out_unmatched(pool, stored, due_ms, has)
            has &= due_ms > self._hand.firing_ms
        waits = has & ~stored.matched & self._tools.is_outer[stored.sides]
        opens = np.minimum.reduceat(np.where(waits, stored.times_us, NEVER), bounds[:-1])
        self._hand.directory.entries["open"][at] = opens
        changed = np.flatnonzero(np.logical_or.reduceat(stored.matched != before, bounds[:-1]))
        self._hand.directory.entries["marked"][at[changed]] = 1
        for place, name in zip(changed.tolist(), self._hand.cell_names(at[changed], MARK_SLOT), strict=True):
            self._hand.marks[name] = packed(stored.matched[int(bounds[place]) : int(bounds[place + 1])])

    # -- state ---------------------------------------------------------------------------------------------------------

    def _stays(self, rows: PairingRows, due_ms: np.ndarray) -> np.ndarray:
        """Which rows are in the state from now on."""
        stays = (
            np.ones(len(rows), dtype=bool) if self._hand.firing_ms == MIN_WATERMARK else due_ms > self._hand.firing_ms
        )
        if self._tools.is_semi:
            stays &= ~(rows.matched & (rows.sides == LEFT))
        return stays
