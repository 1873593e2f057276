"""What a join takes of memory for one key with many wide rows, without Spark."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from join_support import FRAME, TIME, Shard, joined
from mixedmode.runtime.operators.contract import InOrder, ShardCounters
from mixedmode.runtime.operators.join.columns import MATCHED_COLUMN, SIDE_COLUMN, TIME_COLUMN
from mixedmode.runtime.operators.join.condition_check import ANSWER_COLUMN, ASKED_COLUMN
from mixedmode.runtime.operators.join.definition import TimeBounds
from mixedmode.runtime.protocols.event_time import MIN_WATERMARK

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks of memory are read from /proc")

_MIB = 1 << 20
ROWS, VALUE_BYTES, BATCH_ROWS = 20_000, 8_192, 250
SECOND_US, DAY_US = 1_000_000, 86_400_000_000
#: Rows that are held whole take five times what they have, and more.
MOST_BYTES = 3 * ROWS * VALUE_BYTES // 4


class _Counted:
    """Output that is only counted."""

    rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows


def hot_rows(count: int, *, made: bool) -> Iterator[pa.RecordBatch]:
    """Rows of one key, left and right by turns, one a second; ``made``: their pairs have been made."""
    values = pa.array([random.Random(seed).randbytes(VALUE_BYTES // 2).hex() for seed in range(64)])
    for first in range(0, count, BATCH_ROWS):
        numbers = np.arange(first, min(first + BATCH_ROWS, count))
        keys, times = pa.array(["hot"] * len(numbers)), pa.array(numbers * SECOND_US).cast(TIME)
        sides = pa.array((numbers % 2).astype(np.int32))
        columns = {"__kg": pa.array(np.full(len(numbers), 2, np.int32)), "__k0": keys}
        columns |= {SIDE_COLUMN: sides, TIME_COLUMN: times}
        for side, letter in enumerate("lr"):
            for place, column in enumerate([keys, times, pa.array(numbers), values.take(pa.array(numbers % 64))]):
                nothing = pa.scalar(None, column.type)
                columns[f"__{letter}{place}"] = pc.if_else(pc.equal(sides, side), column, nothing)
        batch = pa.RecordBatch.from_arrays([columns[field.name] for field in FRAME], schema=FRAME)
        yield batch.append_column(MATCHED_COLUMN, pa.array([False] * len(numbers))) if made else batch


def answered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark does: it says of every candidate whether it is a pair, here of one in two."""
    for batch in batches:
        is_pair = pc.equal(pc.bit_wise_and(batch.column("__l2"), 2), 0)
        yield batch.append_column(ANSWER_COLUMN, pc.if_else(pc.equal(batch.column(ASKED_COLUMN), -1), is_pair, None))


def status_bytes(name: str) -> int:
    """A line of what the system knows of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def peaks(folder: str, has_condition: bool) -> list[tuple[str, int, int]]:
    """What went out of each epoch, and its peak above what the process takes when it has done such work before."""
    for name in ("warm", "hot"):
        Path(folder, name).mkdir()
    epochs(f"{folder}/warm", has_condition, BATCH_ROWS)
    return epochs(f"{folder}/hot", has_condition, ROWS)


def epochs(folder: str, has_condition: bool, rows: int) -> list[tuple[str, int, int]]:
    """A first pass, a later backlog and a live epoch, of the same times."""
    bounds = TimeBounds(-2 * SECOND_US, 0)
    shard = Shard(joined("full", bounds, more_us=100 * DAY_US, has_condition=has_condition), folder)
    found = []
    for name, style, count in [
        ("first", "sorted", rows),
        ("later", "sorted", rows // 2),
        ("live", "random", rows // 20),
    ]:
        Path("/proc/self/clear_refs").write_text("5")
        base, output = status_bytes("VmRSS:"), _Counted()
        context, writer = shard.context(style, MIN_WATERMARK, 0, InOrder(MIN_WATERMARK, 5, 30), output)
        batches = hot_rows(count, made=name == "first")
        if has_condition and name != "first":
            asking: Any = replace(context, writer=None, output=None, counters=ShardCounters())
            batches = answered(shard.operator.questions.ask(asking, batches))
        shard.operator.run(context, batches)
        shard.manifest = shard.manifest.append(writer.finish())
        found.append((name, output.rows, status_bytes("VmHWM:") - base))
    shard.cache.close()
    return found


@pytest.mark.parametrize("has_condition", [False, True])
def test_a_hot_key_takes_memory_for_its_pieces_not_for_its_rows(tmp_path: Path, has_condition: bool) -> None:
    """J10: rows that all become state, those that meet them in a later backlog, and live ones."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        found = processes.submit(peaks, str(tmp_path), has_condition).result(timeout=300)
    # Each row has one partner of its epoch, and one of each earlier one; the condition is true of half of the pairs.
    pairs = [0, 3 * ROWS // 4, ROWS // 8]
    assert [rows for _, rows, _ in found] == [count // 2 if has_condition else count for count in pairs]
    for name, _, peak_bytes in found:
        assert peak_bytes < MOST_BYTES, f"{name}: {peak_bytes / _MIB:.0f} MiB"
