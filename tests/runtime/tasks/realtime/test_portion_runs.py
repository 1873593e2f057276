"""An epoch whose rows come in portions, and whose changes are written in segments, leaves what any other leaves."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.runtime.operators.contract import EpochSpec, InOrder, KeyedOperator, ShardContext, ShardCounters
from mixedmode.runtime.tasks.realtime.overlaid_state import EpochChanges, OverlaidState
from mixedmode.runtime.tasks.realtime.portion_runs import PortionRuns, open_epoch
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.segmented_log import SegmentedLog
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs
from stage_support import Input, Output, Stage, batches, by_key

LOCAL = fs.LocalFileSystem()


class Portions(Stage):
    """A shard whose live epochs get their rows in portions."""

    def run_in_portions(self, portions: list[list[Input]], **times: Any) -> list[tuple[Any, ...]]:
        """One live epoch; returns what the processor yielded, in order."""
        self.epoch += 1
        output, self.counters = Output(), ShardCounters()
        log = SegmentedLog(partial(LogWriter, LOCAL, self._pool, self._local, epoch=self.epoch), f"p{self.epoch:08d}")
        base = self._cache.acquire("job", 0, self._lineage, LOCAL, self._pool, self._local, 1 << 20)
        epoch = EpochSpec(
            epoch=self.epoch, style="random", processing_time_ms=0, processing_timers_upto_ms=-(2**63), **times
        )
        context = ShardContext(0, self._lineage.key_groups, epoch, base, log, output, self.counters)
        open_one = open_epoch(self.operator, context, has_state=bool(self._lineage.files))
        for portion in portions:
            before = len(output.rows)
            open_one.take(iter(batches(portion, 3)))
            assert len(output.rows) > before or not any("count" in row[2] for row in portion), "rows go out at once"
            if open_one.unwritten_keys > 1:
                open_one.write_changes(log)
                log.cut()
                assert open_one.unwritten_keys == 0
            else:
                assert self._cache.follow("job", 0, self._lineage.append(log.durable()), self._pool)
        open_one.finish()
        self._lineage = self._lineage.append(log.finish())
        return output.rows


COMMANDS = st.sampled_from(["count", "+120", "+200 count", "+300", "timers", "watermark"])
ROWS = st.lists(st.tuples(st.sampled_from("abc"), COMMANDS), min_size=1, max_size=14)


@settings(max_examples=15)
@given(st.lists(ROWS, min_size=1, max_size=3), st.data())
def test_a_processor_does_not_depend_on_portions(epochs: list[list[tuple[str, str]]], data: st.DataObject) -> None:
    """Its rows come in the order of event time, under in-order timers: output by key, and all that is stored."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        at_once, in_portions, ms, fired = Stage(Path(one)), Portions(Path(other)), 100, -(2**63)
        for epoch in epochs:
            rows: list[Input] = []
            for key, does in epoch:
                ms += 7
                rows.append((key, ms, does))
            cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
            bounds = [0, *cuts, len(rows)]
            portions = [rows[first:last] for first, last in pairwise(bounds) if first < last]
            watermark = rows[0][1] - 20
            times = {
                "watermark_ms": watermark,
                "firing_watermark_ms": watermark,
                "late_watermark_ms": fired,
                "in_order": InOrder(fired, 20),
            }
            wanted = at_once.run(rows, "random", **times)
            found = in_portions.run_in_portions(portions, **times)
            assert by_key(found) == by_key(wanted)
            assert in_portions.counters == replace(at_once.counters, keys=in_portions.counters.keys)
            fired = watermark
        assert in_portions.stored() == at_once.stored()


@given(
    st.dictionaries(st.binary(min_size=2, max_size=4), st.binary(max_size=3), max_size=12),
    st.lists(st.tuples(st.binary(min_size=2, max_size=4), st.none() | st.binary(max_size=3)), max_size=12),
    st.lists(st.binary(max_size=4), max_size=8),
    st.binary(max_size=3),
    st.binary(max_size=3),
)
@settings(max_examples=15)
def test_changes_lie_over_what_is_committed(
    stored: dict[bytes, bytes], changes: list[tuple[bytes, bytes | None]], asked: list[bytes], low: bytes, high: bytes
) -> None:
    """Reads see the last change of a key, and in a scan deleted keys are not there."""
    with tempfile.TemporaryDirectory() as folder:
        cache = LocalStateCache()
        base = cache.acquire("job", 0, StateManifest(KeyGroupRange(0, 127)), LOCAL, folder, f"{folder}/local", 1 << 20)
        base.database.write(list(stored), list(stored.values()), deletes=False)
        epoch, model = EpochChanges(), dict(stored)
        overlaid = OverlaidState(base, epoch)
        for key, value in changes:
            if value is None:
                epoch.delete(key)
                model.pop(key, None)
            else:
                epoch.put(key, value)
                model[key] = value
        assert overlaid.multi_get(asked) == [overlaid.get(key) for key in asked] == [model.get(key) for key in asked]
        assert list(overlaid.scan(low, high)) == sorted((k, v) for k, v in model.items() if low <= k < high)
        cache.close()


class Summing(KeyedOperator):
    """Adds numbers up by key; knows nothing of portions."""

    kind = "summing"

    def run(self, context: ShardContext, rows: Any) -> None:
        keys: dict[bytes, int] = {}
        for batch in rows:
            context.counters.rows_in += batch.num_rows
            for key, number in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                keys[key] = keys.get(key, 0) + number
        for key in sorted(keys):
            old = None if context.base is None else context.base.get(key)
            total = keys[key] + int(old or b"0")
            context.writer.put(key, str(total).encode())
            context.output.write(pa.RecordBatch.from_pydict({"key": [key], "total": [total]}))


def test_an_operator_that_knows_no_portions_finds_what_it_has_written(tmp_path: Path) -> None:
    """It runs for each portion over the state of those before; a key that changed twice is in the
    log once, or in each segment that it changed in."""
    cache, manifest = LocalStateCache(), StateManifest(KeyGroupRange(0, 127))
    pool, local = f"{tmp_path}/pool", f"{tmp_path}/local"
    for epoch in (1, 2):
        output, counters = Output(), ShardCounters()
        writer = SegmentedLog(partial(LogWriter, LOCAL, pool, local, epoch=epoch), f"e{epoch}")
        base = cache.acquire("job", 0, manifest, LOCAL, pool, local, 1 << 20)
        spec = EpochSpec(epoch, "random", 0, 0, 0, 0, 0)
        context = ShardContext(0, manifest.key_groups, spec, base, writer, output, counters)
        runs = PortionRuns(Summing(), context, has_state=bool(manifest.files))
        for numbers in ([1, 2], [3]):
            keys = [b"\0\1a", b"\0\1b"][: len(numbers)]
            runs.take(iter([pa.RecordBatch.from_pydict({"key": keys, "number": numbers})]))
            if epoch == 2:
                assert runs.unwritten_keys == len(keys)
                runs.write_changes(writer)
                writer.cut()
                assert cache.follow("job", 0, manifest.append(writer.durable()), pool)
        runs.finish()
        files = writer.finish()
        manifest = manifest.append(files)
        assert [file.entries for file in files] == ([2] if epoch == 1 else [2, 1])
        assert counters.rows_in == 3
    assert [total for _, total in output.rows] == [5, 4, 8]
    final = cache.acquire("job", 0, manifest, LOCAL, pool, local, 1 << 20)
    assert list(final.scan(b"", b"\xff")) == [(b"\0\1a", b"8"), (b"\0\1b", b"4")]
    cache.close()
