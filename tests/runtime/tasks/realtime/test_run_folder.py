"""What the driver and the shards of a run in Real-Time Mode tell each other."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.errors import CheckpointError
from mixedmode.runtime.operators.contract import EpochSpec, InOrder, ShardCounters
from mixedmode.runtime.tasks.realtime.latency_histogram import EpochProgress
from mixedmode.runtime.tasks.realtime.run_folder import (
    EpochOrder,
    RealTimeReport,
    SeenMessages,
    remove_other_runs,
    run_folder,
    runs_folder,
)
from mixedmode.runtime.tasks.report import ShardReport
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.segmented_log import SegmentedLog
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs

SPEC = EpochSpec(7, "random", 5, 5, 3, 1_000, 1_000, in_order=InOrder(3, 10), has_input=True)
LOCAL = fs.LocalFileSystem()


def report(shard: int, **counts: int) -> RealTimeReport:
    """Of a shard that has had so many messages of partitions ``p0``, ``p1`` and so on, from offset 0 on."""
    seen = SeenMessages()
    for name, number in counts.items():
        seen.add([int(name[1:])] * number, range(number))
    return RealTimeReport(seen, ShardReport(shard, f"s{shard}", (), (), ShardCounters(rows_in=3), {"process": 1}))


def test_a_shard_gets_the_order_of_its_epoch(tmp_path: Path) -> None:
    """A shard waits until the driver has written the order, and gets it as it was."""
    folder = run_folder(LOCAL, str(tmp_path), "run")
    folder.make()
    order, found = EpochOrder(SPEC, (StateManifest(KeyGroupRange(0, 127)),)), []
    shard = threading.Thread(target=lambda: found.append(folder.wait_for_order(4)))
    shard.start()
    folder.write_order(3, EpochOrder(SPEC, ()))
    folder.write_order(4, order)
    shard.join(60)
    assert found == [order]


def test_a_shard_of_a_run_that_is_over_waits_no_longer(tmp_path: Path) -> None:
    """The next run removes the folders of all others, and keeps its own."""
    old, new = (run_folder(LOCAL, str(tmp_path), name) for name in ("old", "new"))
    old.make()
    new.make()
    remove_other_runs(LOCAL, runs_folder(str(tmp_path)), "new")
    with pytest.raises(CheckpointError, match="another driver has taken its place"):
        old.wait_for_order(0)
    with pytest.raises(FileNotFoundError):
        old.write_report(0, report(0))
    new.write_report(0, report(0))
    assert new.has_reports(0, 1)


def test_the_driver_reads_what_shards_report(tmp_path: Path) -> None:
    """All shards must have reported, in this very epoch; a committed epoch is forgotten."""
    folder = run_folder(LOCAL, str(tmp_path), "run")
    folder.make()
    folder.write_report(1, report(0, p0=2))
    assert not folder.has_reports(1, 2)
    folder.write_report(2, report(1))
    assert not folder.has_reports(1, 2)
    folder.write_report(1, report(1, p0=1, p1=4))
    assert folder.reports(1, 2) == [report(0, p0=2), report(1, p0=1, p1=4)]
    folder.write_progress(1, 1, EpochProgress(rows=3).to_bytes())
    assert folder.progress(1, 1) == EpochProgress(rows=3)
    folder.forget(1, 2)
    assert not folder.has_reports(1, 1)
    assert folder.progress(1, 1) is None


def test_shards_learn_what_is_durable_of_others(tmp_path: Path) -> None:
    """The files of a shard's change log so far; nothing of another epoch, and nothing once the epoch is committed."""
    folder = run_folder(LOCAL, str(tmp_path), "run")
    folder.make()
    log = SegmentedLog(partial(LogWriter, LOCAL, f"{tmp_path}/pool", str(tmp_path), epoch=1), "e1")
    for key in (b"\0\0a", b"\0\0b"):
        log.put(key, b"value")
        log.cut()
        folder.write_segments(1, 0, log.durable())
    assert folder.segments(1, 0) == log.durable()
    assert len(log.durable()) == 2
    assert folder.segments(2, 0) == folder.segments(1, 1) == []
    folder.forget(1, 2)
    assert folder.segments(1, 0) == []
    assert not list((tmp_path / "realtime" / "run").glob("*/*"))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=40), st.integers(0, 10), st.data())
def test_messages_are_all_if_and_only_if_none_is_missing_or_twice(
    rows: list[tuple[int, int]], begin: int, data: st.DataObject
) -> None:
    """Whichever shards have had them."""
    start = dict.fromkeys(range(3), begin)
    at, shards = dict(start), [SeenMessages(), SeenMessages()]
    for partition, shard in rows:
        shards[shard].add([partition], [at[partition]])
        at[partition] += 1
    total = SeenMessages()
    for shard in shards:
        total.include(shard)
    assert total.are_all(start, at)
    if not rows:
        return
    partition = data.draw(st.sampled_from(rows))[0]
    offset = data.draw(st.integers(begin, at[partition] - 1))
    total.add([partition], [offset])
    assert not total.are_all(start, at), "one came twice"
    assert not shards[0].are_all(start, at) or not shards[1].counts, "those of a shard are missing"


def test_messages_of_a_partition_that_the_batch_does_not_have_are_too_many() -> None:
    """A partition that Spark does not name is no part of the batch."""
    seen = SeenMessages()
    seen.add([0, 5], [0, 0])
    assert not seen.are_all({}, {0: 1})
