"""Rows are dealt to the same lanes by everybody, a shard's in the order in which they were staged."""

from __future__ import annotations

from mixedmode.runtime.connectors.sinks.kafka.send_lanes import MOST_LANES, lanes_of
from mixedmode.runtime.connectors.staging import StagedFile, writer_number


def staged(epoch: int, writer: int, rows: int, kind: str = "s") -> StagedFile:
    return StagedFile(f"e{epoch:08d}-{kind}{writer:04d}-run-7.parquet", rows, 1)


def test_a_small_checkpoint_is_one_lane() -> None:
    """Then readers see all of it at once: epoch by epoch, whatever order the files are named in."""
    files = [staged(2, 0, 10), staged(2, 1, 0), staged(1, 1, 4), staged(1, 0, 5)]
    (lane,) = lanes_of(files)
    assert [file.rows for file in lane.files] == [4, 5, 10] and lane.starts == [0, 4, 9] and lane.rows == 19


def test_large_ones_are_dealt_by_shard() -> None:
    """All epochs of a shard are in one lane, in order, and there are not more lanes than a broker should bear."""
    files = [staged(epoch, shard, 5_000) for epoch in (1, 2, 3) for shard in range(40)]
    lanes = lanes_of(files)
    assert len(lanes) == MOST_LANES and sum(lane.rows for lane in lanes) == 600_000
    for lane in lanes:
        assert {writer_number(file.name) % MOST_LANES for file in lane.files} == {lane.number}
        assert [file.name[:9] for file in lane.files] == sorted(file.name[:9] for file in lane.files)
    assert lanes_of(files[:6]) != lanes_of(files) and len(lanes_of(files[:6])) == 3
    assert lanes_of([]) == []


def test_who_wrote_a_file() -> None:
    """Its name says: a shard, or a partition of the tail; also when it was staged again."""
    assert [writer_number(staged(1, 12, 1, kind).name) for kind in "st"] == [12, 12]
    assert writer_number("e00000001-s0003-f0007-ab-9.parquet") == 3
    assert writer_number("e00000001-a.parquet") == 0
