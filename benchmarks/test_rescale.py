"""What another number of shards costs: local copies of the new shards from old files, and files of their own.

CPU time of one process, without Spark: dealing itself is a matter of names.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from statistics import median
from typing import Any

from mixedmode.state.keys.keygroups import KeyGroupRange, shard_ranges
from mixedmode.state.store.compaction import compact
from mixedmode.state.store.local_copy import LocalStateCache
from mixedmode.state.store.log import LogWriter
from mixedmode.state.store.sst import SstWriter
from mixedmode.state.store.state_manifest import StateManifest, redeal
from pyarrow import fs

MAX_PARALLELISM = 128
BEFORE = 8
#: Bytes of a value; epochs since the state was migrated, and the share of the keys that each has changed.
VALUE_BYTES, EPOCHS, SHARE = 64, 10, 0.001
CACHE_BYTES = 64 << 20


class State:
    """Keyed state of some shards: what a backlog has migrated, and the change logs of some epochs."""

    def __init__(self, folder: Path, keys: int) -> None:
        self.filesystem = fs.LocalFileSystem()
        self.pool, self.local = str(folder / "pool"), str(folder / "local")
        for made in (self.pool, self.local):
            Path(made).mkdir(parents=True)
        self._chance, self._each = random.Random(7), keys // MAX_PARALLELISM
        self.manifests = [self._shard(groups) for groups in shard_ranges(BEFORE, MAX_PARALLELISM)]

    def _shard(self, groups: KeyGroupRange) -> StateManifest:
        place = (self.filesystem, self.pool, self.local)
        table = SstWriter(*place, f"e1-{groups.first}", 1)
        self._put(table, groups, range(self._each))
        manifest = StateManifest(groups, tuple(table.finish()))
        for epoch in range(2, 2 + EPOCHS):
            log = LogWriter(*place, f"e{epoch}-{groups.first}", epoch)
            changed = self._chance.sample(range(self._each), max(int(self._each * SHARE), 1))
            self._put(log, groups, sorted(changed))
            manifest = manifest.append(log.finish())
        return manifest

    def _put(self, writer: SstWriter | LogWriter, groups: KeyGroupRange, numbers: Any) -> None:
        for group in groups:
            for number in numbers:
                key = group.to_bytes(2, "big") + b"\x01" + number.to_bytes(8, "big")
                writer.put(key, self._chance.randbytes(VALUE_BYTES))

    def dealt(self, shards: int, round_number: int, *, compacts: bool) -> tuple[float, float]:
        """CPU seconds until all shards have their local copies, and until their state is in files of their own."""
        manifests = redeal(self.manifests, shard_ranges(shards, MAX_PARALLELISM))
        cache, started = LocalStateCache(max_open=shards), time.process_time()
        try:
            local_copies = [
                cache.acquire(f"{shards}", shard, manifest, self.filesystem, self.pool, self.local, CACHE_BYTES)
                for shard, manifest in enumerate(manifests)
            ]
            built_s = time.process_time() - started
            for shard, (manifest, local_copy) in (
                enumerate(zip(manifests, local_copies, strict=True)) if compacts else ()
            ):
                name = f"e99-{shards}-{shard}-{round_number}"
                compact(manifest, local_copy, self.filesystem, self.pool, self.local, name, kind="full")
            return built_s, time.process_time() - started - built_s
        finally:
            cache.close()


def test_rescale(benchmark: Any, bench: Any, tmp_path: Path) -> None:
    """The shards that there are, as a restart builds them, and more and fewer of them, in turn."""
    keys, rounds = bench.sizes.restore_keys, bench.sizes.rounds
    title = f"Replicas of other shards than {BEFORE}: {keys:,} keys with values of {VALUE_BYTES} bytes, CPU seconds"
    begun = bench.begin("rescale", title, keys=keys, rounds=rounds)
    state = State(tmp_path / "state", keys)
    ways = {f"{shards} shards": shards for shards in (BEFORE, 16, 12, 4)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    compacted: dict[str, list[float]] = {way: [] for way in ways}

    def all_ways() -> None:
        for way, shards in ways.items():
            built_s, compacted_s = state.dealt(shards, len(seconds[way]), compacts=shards != BEFORE)
            seconds[way].append(built_s)
            compacted[way].append(compacted_s)

    benchmark.pedantic(all_ways, rounds=rounds)
    size = sum(manifest.size_bytes for manifest in state.manifests)
    told = [f"{way} {min(each):.2f} s" for way, each in compacted.items() if ways[way] != BEFORE]
    notes = (f"{size / 1e6:,.1f} MB of state", f"then files of their own, CPU: {', '.join(told)}")
    twice = median(seconds["16 shards"]) / median(seconds[f"{BEFORE} shards"])
    bench.record(
        begun,
        seconds=seconds,
        baselines=(f"{BEFORE} shards",),
        notes=notes,
        findings={"rescale-twice": twice},
    )
