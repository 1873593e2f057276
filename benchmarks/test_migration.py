"""Migration of keyed state into a complete checkpoint, and what RocksDB says of the local copy made from it."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import mixedmode
import pytest
from dataset import Shape, dataset
from mixedmode.runtime.operators.contract import KeyedOperator
from mixedmode.state.backend.random_access import RandomAccessKeyedState
from mixedmode.state.store.local_copy import LocalStateCache, LocalStateCopy
from mixedmode.state.store.log import LogWriter
from pyspark.sql import SparkSession
from state_on_disk import (
    ALL_GROUPS,
    SORTED_EPOCH,
    Migrated,
    encoded_keys,
    migrate_aggregate,
    migrate_processor,
    sorted_batches,
)
from workload import Job, aggregate, processor

#: Epochs of the stream right after the migration, and the keys that each changes.
LIVE_EPOCHS = 30
LIVE_KEYS = 1_000
BOTTOM_LEVEL = 6


def operator_of(spark: SparkSession, job: Job, shape: Shape) -> KeyedOperator:
    """The operator that ``start()`` would hand to the runtime."""
    frame = mixedmode.read(history=spark.createDataFrame([], shape.ddl))
    described = job(frame).writeStream.format("noop").outputMode("update").described()
    return described.operator


@pytest.mark.parametrize("name", ["processor", "aggregate"])
def test_migration(benchmark: Any, spark: SparkSession, bench: Any, tmp_path: Path, name: str) -> None:
    """State of every key once, to complete checkpoint; then the first epochs of the stream on what was migrated."""
    keys, rounds = bench.sizes.migration_keys, bench.sizes.rounds
    shape = Shape(keys, keys, files=1, each_key_once=True)
    begun = bench.begin(f"migration-{name}", f"Migration, state of the {name}: {keys:,} keys", keys=keys, rounds=rounds)
    if name == "processor":
        operator = operator_of(spark, processor, shape)
        groups, encoded = encoded_keys(keys)

        def migrate() -> Migrated:
            return migrate_processor(operator, groups, encoded, tmp_path / "state")
    else:
        operator = operator_of(spark, aggregate(), shape)
        frame = spark.read.schema(shape.ddl).parquet(*dataset(shape).files)
        batches = list(sorted_batches(operator.prepare(frame, SORTED_EPOCH).toArrow(), operator))

        def migrate() -> Migrated:
            return migrate_aggregate(operator, batches, tmp_path / "state")

    migrate()
    runs: list[Migrated] = []
    benchmark.pedantic(lambda: runs.append(migrate()), rounds=rounds)
    findings = {f"migration-{name}": keys / median([run.cpu_s for run in runs])}
    files = runs[-1].manifest.files
    notes = [f"files: {len(files)}; {sum(file.size_bytes for file in files) / keys:.1f} bytes a key"]
    if name == "processor":
        debts, told = stream_on(operator, runs[-1], tmp_path)
        findings["compaction-debt"] = max(debts)
        notes += told
    seconds = {"a key each, CPU time": [run.cpu_s for run in runs]}
    bench.record(begun, rows=keys, seconds=seconds, findings=findings, notes=tuple(notes))


def stream_on(operator: KeyedOperator, migrated: Migrated, folder: Path) -> tuple[list[int], list[str]]:
    """Restore a local copy and bring it through some epochs; the debt after each, and what happened."""
    cache = LocalStateCache()
    local = folder / "replicas"
    local.mkdir()
    manifest = migrated.manifest

    def brought() -> LocalStateCopy:
        return cache.acquire("job", 0, manifest, migrated.store.filesystem, migrated.pool, str(local), 64 << 20)

    try:
        local_copy = brought()
        levels = [number(local_copy, f"num-files-at-level{level}") for level in range(BOTTOM_LEVEL + 1)]
        at_bottom = sum(levels) == levels[BOTTOM_LEVEL]
        notes = [f"restored: {levels[BOTTOM_LEVEL]} of {sum(levels)} files at the bottom level"]
        debts, on_top, stalls = [debt(local_copy)], [], 0
        changed = list(zip(*encoded_keys(LIVE_EPOCHS * LIVE_KEYS), strict=True))
        for epoch in range(LIVE_EPOCHS):
            state = RandomAccessKeyedState(operator.registry, local_copy, ALL_GROUPS, 0)
            totals = state.value_state("totals")
            for group, key in changed[epoch::LIVE_EPOCHS]:
                state.set_current_key(group, key)
                totals.update((epoch, 1.5))
            writer = LogWriter(migrated.store.filesystem, migrated.pool, str(local), f"e{epoch + 2}", epoch + 2)
            state.flush(writer)
            manifest = manifest.append(writer.finish())
            local_copy = brought()
            debts.append(debt(local_copy))
            on_top.append(number(local_copy, "num-files-at-level0"))
            stalls += number(local_copy, "is-write-stopped") + number(local_copy, "actual-delayed-write-rate")
        notes.append(f"{LIVE_EPOCHS} epochs of {LIVE_KEYS:,} changed keys: at most {max(on_top)} files at level 0")
        notes.append(f"writes delayed or stopped: {'never' if stalls == 0 else f'yes ({stalls})'}")
        assert at_bottom
        assert cache.rebuilds == 1
        return debts, notes
    finally:
        cache.close()


def debt(local_copy: LocalStateCopy) -> int:
    """Bytes that RocksDB thinks it must still compact."""
    return number(local_copy, "estimate-pending-compaction-bytes")


def number(local_copy: LocalStateCopy, name: str) -> int:
    """A property of the local copy's database."""
    found = local_copy.database.rdict.property_value(f"rocksdb.{name}")
    assert found is not None, f"RocksDB has no property rocksdb.{name}"
    return int(found)
