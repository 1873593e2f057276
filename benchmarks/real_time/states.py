"""The state of the shards outside of an epoch: what there is before a run, and what is committed behind it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import messages
from kafka_broker import Broker
from plan import GROUPS, SHARDS

if TYPE_CHECKING:
    from mixedmode.state.store.state_manifest import StateManifest
    from pyspark.sql import SparkSession

#: How often a key came (8 bytes), and a digest of its values in their order (4).
_EMPTY = bytes(12)


def before(spark: SparkSession, folder: str, keys: int) -> list[StateManifest]:
    """A table of each shard with all of its keys."""
    from mixedmode.state.keys.keygroups import bit_reversed, shard_ranges
    from mixedmode.state.store.sst import SstWriter
    from mixedmode.state.store.state_manifest import StateManifest
    from pyarrow import fs

    key = "format_string('k%06d', id)"
    rows = spark.range(keys).selectExpr(f"{key} k", f"pmod(hash({key}), {GROUPS}) g").collect()
    manifests = []
    for shard, span in enumerate(shard_ranges(SHARDS, GROUPS)):
        mine = (row for row in rows if row.g % SHARDS == shard)
        stored = sorted(bit_reversed(row.g, GROUPS).to_bytes(2, "big") + row.k.encode() for row in mine)
        assert all(int.from_bytes(each[:2], "big") in span for each in stored)
        writer = SstWriter(fs.LocalFileSystem(), f"{folder}/pool", f"{folder}/local", f"base-{shard}", 0)
        writer.put_many(stored, [_EMPTY] * len(stored))
        manifests.append(StateManifest(span, tuple(writer.finish())))
    return manifests


def compare(broker: Broker, topic: str, manifests: list[StateManifest], ends: dict[str, int], folder: str) -> bool:
    """Whether the committed state, rebuilt from its files, is that of a plain batch over the committed offsets."""
    wanted: dict[str, tuple[int, int]] = {}
    for each in messages.read(broker, topic):
        if each.offset < ends[str(each.partition)]:
            count, digest = wanted.get(each.key, (0, 0))
            wanted[each.key] = count + 1, zlib.crc32(each.value.encode(), digest)
    found = _rebuilt(manifests, folder)
    equal = found == wanted
    verdict = "EQUAL to a batch" if equal else "DIFFERENT"
    print(f"committed state of {len(found)} keys, {sum(ends.values())} rows: {verdict}", flush=True)
    return equal


def _rebuilt(manifests: list[StateManifest], folder: str) -> dict[str, tuple[int, int]]:
    """Count and digest of the keys that came, from state files alone."""
    from mixedmode.state.store.local_copy import LocalStateCache
    from pyarrow import fs

    cache, found = LocalStateCache(), {}
    for shard, manifest in enumerate(manifests):
        places = fs.LocalFileSystem(), f"{folder}/pool", f"{folder}/local"
        copy = cache.acquire("check", shard, manifest, *places, 64 << 20)
        for key, value in copy.scan(b"", b"\xff\xff\xff"):
            if count := int.from_bytes(value[:8], "big"):
                found[key[2:].decode()] = count, int.from_bytes(value[8:], "big")
    cache.close()
    return found
