"""Lineages on their way to tasks."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixedmode.state.keys.keygroups import KeyGroupRange
from mixedmode.state.store import packed_manifests
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.packed_manifests import PackedManifests
from mixedmode.state.store.state_manifest import StateManifest

NUMBERS = st.integers(0, 2**40)
GROUPS = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(lambda pair: KeyGroupRange(min(pair), max(pair)))
FILES = st.builds(
    StateFile,
    name=st.text(max_size=20),
    format=st.sampled_from(["sst", "log"]),
    size_bytes=NUMBERS,
    sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
    entries=NUMBERS,
    tombstones=NUMBERS,
    first_key=st.binary(max_size=20),
    last_key=st.binary(max_size=20),
    first_epoch=NUMBERS,
    last_epoch=NUMBERS,
    clip=st.none() | GROUPS,
)
LINEAGES = st.builds(
    StateManifest,
    key_groups=GROUPS,
    files=st.lists(FILES, max_size=3).map(tuple),
    replaced=st.lists(st.text(max_size=8), max_size=3).map(tuple),
    replaced_by=st.integers(0, 3),
)


@given(st.lists(LINEAGES, max_size=5))
def test_tasks_get_the_lineages_that_were_sent(manifests: list[StateManifest]) -> None:
    """Every shard's manifest arrives as it was: files, clips and all, also a second time and of copies."""
    sent = PackedManifests(manifests)
    assert list(pickle.loads(pickle.dumps(sent))) == manifests
    assert list(PackedManifests(manifests)) == manifests
    clipped = [
        replace(one, files=tuple(replace(file, clip=KeyGroupRange(1, 2)) for file in one.files)) for one in manifests
    ]
    assert PackedManifests(clipped)[:] == tuple(clipped)


def test_a_task_reads_the_lineage_of_its_own_shard_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others' are is some bytes to it; one that only counts shards gets none of them."""
    file = StateFile("f", "log", 1, "00" * 32, 1, 0, b"a", b"b", 1, 1)
    manifests = [StateManifest(KeyGroupRange(n, n), (replace(file, name=f"f{n}"),)) for n in range(1000)]
    read: list[bytes] = []
    whole = packed_manifests._unpacked

    def counted(packed: bytes) -> StateManifest:
        read.append(packed)
        return whole(packed)

    monkeypatch.setattr(packed_manifests, "_unpacked", counted)
    sent = PackedManifests(manifests)
    arrived = pickle.loads(pickle.dumps(sent))
    assert arrived[7].files[0].name == "f7"
    assert len(read) == 1
    emptied = pickle.dumps(sent.emptied())
    assert len(pickle.loads(emptied)) == 1000
    assert len(emptied) < 5_000


def test_a_file_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch packs the files that are new: those before it are known as bytes."""
    packed: list[tuple[object, ...]] = []
    encode = packed_manifests.msgspec.msgpack.encode

    class Counted:
        @staticmethod
        def encode(value: tuple[object, ...]) -> bytes:
            packed.append(value)
            return encode(value)

    file = StateFile("f", "log", 1, "00" * 32, 1, 0, b"a", b"b", 1, 1)
    before = StateManifest(KeyGroupRange(0, 1), (file,))
    PackedManifests([before])
    monkeypatch.setattr(packed_manifests.msgspec, "msgpack", Counted)
    PackedManifests([before.append([replace(file, name="g")])])
    assert [one[0] for one in packed] == ["g", 0], "the new file, and the manifest"
