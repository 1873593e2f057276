"""Lineages: when compaction is due, and re-dealing key groups."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixedmode.state.keys.keygroups import KeyGroupRange, shard_ranges
from mixedmode.state.store.files import StateFile
from mixedmode.state.store.state_manifest import StateManifest, redeal
from state_support import WHOLE, Workspace, contents, stored

MIB = 1 << 20
_names = count()


def described(file_format: str, size_bytes: int, first: int = 0, last: int = 127) -> StateFile:
    """A file's description without a file."""
    return StateFile(
        f"f{next(_names)}", file_format, size_bytes, "", 1, 0, stored(first, b"a"), stored(last, b"z"), 1, 1
    )


def test_json_keeps_everything() -> None:
    """A manifest survives the checkpoint metadata, with clips and what compaction replaced."""
    file = described("sst", 5)
    (clipped,) = redeal([StateManifest(WHOLE, (file,))], [KeyGroupRange(3, 9)])
    manifest = StateManifest(WHOLE, (file, clipped.files[0]), ("a", "b"), 1)
    assert clipped.files[0].clip == KeyGroupRange(3, 9)
    assert StateManifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


def test_a_base_alone_needs_no_compaction() -> None:
    """Tables that follow each other are the base, however many and large."""
    files = tuple(described("sst", 64 * MIB, i, i) for i in range(100))
    manifest = StateManifest(WHOLE, files)
    assert manifest.base_files == 100
    assert manifest.needs_compaction() is None


def test_overlays_beyond_half_the_base_ask_for_a_full_rewrite() -> None:
    """The threshold is a share of the base, with a floor for small states."""
    base = StateManifest(WHOLE, (described("sst", 100 * MIB),))
    assert base.append([described("sst", 49 * MIB)]).needs_compaction() is None
    assert base.append([described("sst", 51 * MIB)]).needs_compaction() == "full"
    assert StateManifest(WHOLE, (described("log", 3 * MIB),)).needs_compaction() is None
    assert StateManifest(WHOLE, (described("log", 5 * MIB),)).needs_compaction() == "full"


def test_many_logs_ask_for_a_merge() -> None:
    """Sixteen logs at the end are merged; a table between them ends the run."""
    base = StateManifest(WHOLE, (described("sst", 100 * MIB),))
    assert base.append([described("log", 1000) for _ in range(15)]).needs_compaction() is None
    assert base.append([described("log", 1000) for _ in range(16)]).needs_compaction() == "logs"
    cut = base.append([described("log", 1000)] * 8).append([described("sst", 10)]).append([described("log", 1000)] * 8)
    assert cut.needs_compaction() is None


def test_log_merges_copy_each_entry_a_few_times_only() -> None:
    """Over many epochs the bytes rewritten stay within a logarithmic multiple of the bytes logged."""
    manifest = StateManifest(WHOLE, (described("sst", 1 << 40),))
    rewritten = longest = 0
    for _ in range(5000):
        manifest = manifest.append([described("log", 1000)])
        if manifest.needs_compaction() == "logs":
            taken = manifest.trailing_logs
            merged = sum(file.size_bytes for file in manifest.files[-taken:])
            rewritten += merged
            manifest = StateManifest(WHOLE, (*manifest.files[:-taken], described("log", merged)))
        longest = max(longest, len(manifest.files))
    assert rewritten < 12 * 5000 * 1000
    assert longest < 64


def test_a_shard_whose_range_stays_keeps_its_lineage() -> None:
    """Re-dealing into the same ranges is the identity."""
    manifests = [StateManifest(part, (described("sst", 5, part.first, part.last),)) for part in shard_ranges(3, 128)]
    assert redeal(manifests, shard_ranges(3, 128)) == manifests


def test_files_go_only_where_they_have_keys() -> None:
    """A file is listed by the shards whose range it touches, and clipped only if it reaches beyond."""
    manifest = StateManifest(
        WHOLE, (described("sst", 5, 0, 40), described("sst", 5, 50, 60), described("log", 5, 0, 127))
    )
    low, high = redeal([manifest], [KeyGroupRange(0, 63), KeyGroupRange(64, 127)])
    assert [file.clip for file in low.files] == [None, None, KeyGroupRange(0, 63)]
    assert [file.name for file in high.files] == [manifest.files[2].name]


@pytest.mark.parametrize("as_table", [True, False])
@pytest.mark.parametrize("parallelisms", [(2, 1, 2, 1, 2), (1, 2, 1, 2)])
def test_overwritten_keys_stay_overwritten_over_two_redealings(
    tmp_path: Path, parallelisms: tuple[int, ...], as_table: bool
) -> None:
    """A file that was clipped to one shard stays clipped when the shards are one again, and two again: what it holds of
    the other shard's keys was overwritten, or deleted, there."""
    space = Workspace(tmp_path)
    manifests = [StateManifest(part) for part in shard_ranges(parallelisms[0], 128)]
    keys = [stored(group, b"k") for group in (3, 60, 64, 120)]
    model: dict[bytes, bytes] = {}
    for epoch, parallelism in enumerate(parallelisms):
        manifests = redeal(manifests, shard_ranges(parallelism, 128))
        # The keys are put anew in every epoch up to the last but two, where one goes; then they are left alone.
        before_end = len(parallelisms) - 3 - epoch
        touched = keys if before_end >= 0 else [stored(10, str(epoch).encode())]
        changes: dict[bytes, bytes | None] = dict.fromkeys(touched, f"v{epoch}".encode())
        if before_end == 0:
            changes[keys[3]] = None
        for number, manifest in enumerate(manifests):
            mine = [(key, value) for key, value in changes.items() if key_group(key) in manifest.key_groups]
            if mine:
                writer = space.sst(epoch) if as_table else space.log(epoch)
                manifests[number] = manifest.append(space.written(writer, mine))
        model = {key: value for key, value in {**model, **changes}.items() if value is not None}
        found: dict[bytes, bytes] = {}
        for number, manifest in enumerate(manifests):
            held = contents(space.local_copy(manifest, number))
            assert all(key_group(key) in manifest.key_groups for key in held)
            found.update(held)
        assert found == model, f"after {parallelisms[: epoch + 1]} shards"
    space.cache.close()


def key_group(key: bytes) -> int:
    return int.from_bytes(key[:2], "big")


def test_redealing_again_and_again_loses_nothing_and_revives_nothing(tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    """Between epochs that put and delete keys, any sequence of parallelisms leaves exactly the model's state."""

    @given(
        st.lists(
            st.tuples(
                st.integers(1, 5),
                st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3), st.booleans()), max_size=12),
                st.booleans(),
            ),
            min_size=2,
            max_size=5,
        )
    )
    def run(steps: list[tuple[int, list[tuple[int, int, bool]], bool]]) -> None:
        space = Workspace(tmp_path_factory.mktemp("redeal"))
        model: dict[bytes, bytes] = {}
        manifests = [StateManifest(KeyGroupRange(0, 15))]
        for epoch, (parallelism, changes, as_table) in enumerate(steps):
            manifests = redeal(manifests, shard_ranges(parallelism, 16))
            entries = {stored(kg, rest): os.urandom(4) if put else None for kg, rest, put in changes}
            for key, value in entries.items():
                model.pop(key, None)
                if value is not None:
                    model[key] = value
            written = []
            for manifest in manifests:
                mine = sorted((k, v) for k, v in entries.items() if int.from_bytes(k[:2], "big") in manifest.key_groups)
                writer = space.sst(epoch) if as_table else space.log(epoch)
                written.append(manifest.append(space.written(writer, mine)))
            manifests = written
            found: dict[bytes, bytes] = {}
            for shard, manifest in enumerate(manifests):
                held = contents(space.local_copy(manifest, shard))
                assert all(int.from_bytes(key[:2], "big") in manifest.key_groups for key in held)
                found.update(held)
            assert found == model
        space.cache.close()

    settings(max_examples=40)(run)()
