"""What a shard changes is written while rows flow, and the process's local copies have it before the epoch ends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from mixedmode.runtime.tasks.realtime.change_segments import ChangeSegments, SegmentPolicy
from mixedmode.runtime.tasks.realtime.run_folder import RunFolder
from mixedmode.runtime.tasks.shard_states import ShardStates
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store.files import SortedStateWriter
from mixedmode.state.store.local_copy import process_cache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.packed_manifests import PackedManifests
from mixedmode.state.store.segmented_log import SegmentedLog
from mixedmode.state.store.state_manifest import StateManifest
from pyarrow import fs

LOCAL = fs.LocalFileSystem()
MANIFESTS = [StateManifest(KeyGroupRange(first, first + 63)) for first in (0, 64)]


class Changes:
    """An open epoch that has changed some keys."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    @property
    def unwritten_keys(self) -> int:
        return len(self.keys)

    def write_changes(self, writer: SortedStateWriter) -> None:
        for key in self.keys:
            writer.put(key, b"value")
        self.keys = []

    def take(self, rows: object) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError


@pytest.fixture
def states(tmp_path: Path) -> Iterator[ShardStates]:
    """Of two shards without state."""
    made = ShardStates(str(tmp_path), PackedManifests(MANIFESTS), LOCAL, f"{tmp_path}/pool", str(tmp_path), 1 << 20)
    yield made
    process_cache().retire(made.job_id, made.pool, 0)


def held(states: ShardStates, shard: int) -> dict[bytes, bytes]:
    """What this process's local copy has."""
    copy = process_cache().known(states.job_id, shard, states.pool)
    assert copy is not None
    return dict(copy.scan(b"", b"\xff\xff\xff"))


def test_much_is_written_at_once_and_copies_have_it(states: ShardStates, folder: RunFolder) -> None:
    """As soon as it is durable; the next epoch of the shard finds a copy that lacks the last segment only."""
    states.acquire(0)
    epoch, log = Changes(), ChangeSegments(folder, 1, 0, states, "e1", 1, SegmentPolicy(keys=2, follow_every_s=0))
    epoch.keys = [b"\0\0a"]
    log.look(epoch)
    assert (epoch.unwritten_keys, held(states, 0)) == (1, {}), "it is little"
    epoch.keys = [b"\0\0a", b"\0\0b"]
    log.look(epoch)
    assert epoch.unwritten_keys == 0
    epoch.keys = [b"\0\0c"]
    log.look(epoch)
    assert held(states, 0) == {b"\0\0a": b"value", b"\0\0b": b"value"}
    assert len(folder.segments(1, 0)) == 1
    epoch.write_changes(log.log)
    files = log.finish()
    assert [file.entries for file in files] == [2, 1]
    brought = process_cache().files_brought
    ShardStates(
        states.job_id,
        PackedManifests([MANIFESTS[0].append(files), MANIFESTS[1]]),
        LOCAL,
        states.pool,
        states.local_dir,
        1 << 20,
    ).acquire(0)
    assert process_cache().files_brought == brought + 1
    assert len(held(states, 0)) == 3


def test_copies_of_other_shards_follow(states: ShardStates, folder: RunFolder) -> None:
    """Those that the process has; a shard that never came to it is no concern."""
    others = SegmentedLog(partial(LogWriter, LOCAL, states.pool, states.local_root, epoch=1), "other")
    others.put(b"\0\x40z", b"value")
    others.cut()
    folder.write_segments(1, 1, others.durable())
    for has_copy in (False, True):
        if has_copy:
            states.acquire(1)
        assert states.holds(1) == has_copy
        log = ChangeSegments(folder, 1, 0, states, f"e{has_copy}", 1, SegmentPolicy(keys=2, follow_every_s=0))
        log.look(Changes())
    assert held(states, 1) == {b"\0\x40z": b"value"}
    assert not states.holds(0), "nobody has asked for it"
