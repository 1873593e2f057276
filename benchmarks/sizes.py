"""How large everything is: four presets, and an environment variable for every single number.

``MIXEDMODE_BENCH_SIZE`` picks the preset: ``tiny`` (does it run?), ``small`` (``make bench``), ``brief``
(``make bench-backlogs``: the sizes of ``full`` in one round) or ``full`` (``make bench-full``: the sizes for which the
targets are promised).  ``MIXEDMODE_BENCH_<FIELD>`` sets one number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace

#: Generated jobs: how many times ``generated_rows`` their sizes are, and how many keys they have.
GENERATED_TIMES, GENERATED_KEYS = (1, 2, 4), (100, 100_000)


@dataclass(frozen=True)
class Sizes:
    """Rows, keys, rounds and so on of all benchmarks; the defaults are those of ``full``."""

    #: Timed rounds of what takes seconds, and of what takes minutes (stock streaming).
    rounds: int = 5
    slow_rounds: int = 1
    #: The backlog of the aggregate, the deduplication and the processor.
    aggregate_rows: int = 10_000_000
    aggregate_keys: int = 1_000_000
    #: Aggregate jobs by engine.
    engine_rows: int = 10_000_000
    engine_rounds: int = 3
    #: Generated aggregate jobs: how many of all sizes together, and the rows of the smallest size (some 40 MiB).
    generated_jobs: int = 200
    generated_rows: int = 1_500_000
    dedup_rows: int = 10_000_000
    dedup_keys: int = 1_000_000
    #: Each side of the join.
    join_rows: int = 10_000_000
    join_keys: int = 1_000_000
    join_stock_limit_s: int = 900
    #: Rows that nobody has seen before, for deduplications and joins; and rounds in fresh processes.
    keyed_rows: int = 5_000_000
    keyed_fresh_rounds: int = 3
    processor_rows: int = 1_000_000
    processor_keys: int = 100_000
    #: A processor with a list, a map and a timer, for which stock asks the JVM several times a row.
    life_rows: int = 1_000_000
    life_keys: int = 100_000
    life_stock_limit_s: int = 900
    #: The trivial processor on pandas frames, where stock takes some 3 ms for each key of a micro-batch.
    pandas_rows: int = 200_000
    pandas_keys: int = 20_000
    #: Throughput of the stream: micro-batches of so many rows; of the processor few, each of which takes stock 20 s.
    stream_batches: int = 5
    stream_aggregate_batches: int = 15
    stream_batch_rows: int = 100_000
    stream_keys: int = 100_000
    #: Latency of the stream: small micro-batches on a large state.
    latency_batches: int = 30
    latency_batch_rows: int = 1_000
    latency_keys: int = 1_000_000
    small_latency_keys: int = 100_000
    #: Live micro-batches of each shape of job, in turn with stock's.
    epoch_batches: int = 60
    #: Files that land one by one, until the rows of each can be seen in the sink.
    visible_batches: int = 60
    #: Counted starts of a small job.
    first_rounds: int = 20
    often_batches: int = 500
    often_rounds: int = 3
    #: The same of a join: buffered rows, and rows a side.
    join_buffered_rows: int = 1_000_000
    join_batch_rows: int = 10_000
    #: A topic as backlog: its messages, and keys of the aggregate and of the processor.
    kafka_rows: int = 5_000_000
    kafka_keys: int = 500_000
    kafka_processor_keys: int = 100_000
    kafka_rounds: int = 3
    kafka_stock_limit_s: int = 260
    #: Restart of a query on a large state, each time with some rows waiting.
    restore_keys: int = 1_000_000
    restore_rows: int = 1_000
    restore_rounds: int = 3
    #: A small job in a session that has done nothing yet.
    cold_rows: int = 100_000
    cold_keys: int = 10_000
    cold_rounds: int = 5
    #: Keys of a large state.
    large_state_keys: int = 10_000_000
    #: Migration of state, without Spark.
    migration_keys: int = 1_000_000
    #: Rows of one shard, to see what a processor costs, without Spark.
    cost_rows: int = 200_000
    #: The sorter gets ``sorter_times`` its budget; so does every task of the backlog whose memory is watched.
    sorter_budget_bytes: int = 32 << 20
    sorter_times: int = 20
    #: Incremental checkpoints: changed keys on a large and on a small state.
    checkpoint_changed_keys: int = 10_000
    checkpoint_small_keys: int = 100_000
    checkpoint_large_keys: int = 10_000_000
    checkpoint_epochs: int = 6
    #: A stream that runs on and on.
    steady_epochs: int = 200
    steady_batch_rows: int = 1_000
    steady_keys: int = 100_000
    #: Epochs of a driver whose tasks do nothing, with a checkpoint behind each.
    soak_epochs: int = 20_000
    #: A stream whose store and sink are slow, with a checkpoint every so many seconds, and without any.
    beside_batches: int = 300
    beside_interval_s: int = 5
    #: Timed checkpoints of the lifecycle alone, without Spark.
    lifecycle_checkpoints: int = 100
    #: Timed epochs of a driver whose tasks do nothing, and how many of them a checkpoint is taken after.
    driver_epochs: int = 60
    driver_epochs_per_checkpoint: int = 5
    #: Spark jobs whose tasks do nothing.
    driver_jobs: int = 20
    #: Keyed totals by those whom a user would pick instead, and the CPU seconds after which one is stopped.
    peer_rows: int = 10_000_000
    peer_keys: int = 1_000_000
    peer_limit_s: int = 300
    #: Growth of the backlog's time: rows of the point from which one thing at a time is changed, and timed rounds.
    growth_aggregate_rows: int = 10_000_000
    growth_processor_rows: int = 1_000_000
    growth_rounds: int = 2
    #: Seconds after which stock is stopped there.
    growth_stock_limit_s: int = 45


_SMALL = Sizes(
    rounds=3,
    aggregate_rows=2_000_000,
    aggregate_keys=100_000,
    engine_rows=1_000_000,
    engine_rounds=2,
    generated_jobs=20,
    dedup_rows=2_000_000,
    dedup_keys=200_000,
    join_rows=1_000_000,
    join_keys=100_000,
    keyed_rows=500_000,
    keyed_fresh_rounds=1,
    processor_rows=100_000,
    processor_keys=10_000,
    life_rows=50_000,
    life_keys=5_000,
    life_stock_limit_s=300,
    pandas_rows=20_000,
    pandas_keys=2_000,
    stream_batch_rows=10_000,
    stream_keys=10_000,
    latency_batches=10,
    latency_keys=20_000,
    epoch_batches=30,
    visible_batches=20,
    first_rounds=8,
    often_batches=60,
    often_rounds=2,
    join_buffered_rows=50_000,
    join_batch_rows=2_000,
    kafka_rows=200_000,
    kafka_keys=20_000,
    kafka_processor_keys=2_000,
    small_latency_keys=10_000,
    kafka_rounds=2,
    restore_keys=20_000,
    cold_rounds=3,
    large_state_keys=500_000,
    migration_keys=300_000,
    sorter_budget_bytes=16 << 20,
    checkpoint_changed_keys=1_000,
    checkpoint_small_keys=10_000,
    checkpoint_large_keys=1_000_000,
    steady_epochs=60,
    steady_keys=10_000,
    soak_epochs=2_000,
    peer_rows=2_000_000,
    peer_keys=200_000,
    beside_batches=60,
    growth_aggregate_rows=1_000_000,
    growth_processor_rows=100_000,
    growth_rounds=1,
)
_TINY = replace(
    _SMALL,
    rounds=1,
    aggregate_rows=20_000,
    aggregate_keys=2_000,
    engine_rows=20_000,
    engine_rounds=1,
    generated_jobs=2,
    generated_rows=20_000,
    dedup_rows=20_000,
    dedup_keys=2_000,
    join_rows=20_000,
    join_keys=2_000,
    keyed_rows=20_000,
    keyed_fresh_rounds=0,
    processor_rows=2_000,
    processor_keys=200,
    life_rows=2_000,
    life_keys=200,
    life_stock_limit_s=60,
    pandas_rows=400,
    pandas_keys=40,
    stream_batches=3,
    stream_aggregate_batches=3,
    stream_batch_rows=500,
    stream_keys=200,
    latency_batches=3,
    latency_batch_rows=100,
    latency_keys=500,
    epoch_batches=3,
    visible_batches=3,
    first_rounds=2,
    often_batches=3,
    often_rounds=1,
    join_buffered_rows=2_000,
    join_batch_rows=200,
    kafka_rows=4_000,
    kafka_keys=400,
    kafka_processor_keys=100,
    small_latency_keys=500,
    kafka_rounds=1,
    restore_keys=500,
    large_state_keys=5_000,
    restore_rows=100,
    restore_rounds=1,
    cold_rows=1_000,
    cold_keys=100,
    cold_rounds=1,
    migration_keys=20_000,
    cost_rows=20_000,
    sorter_budget_bytes=4 << 20,
    checkpoint_changed_keys=100,
    checkpoint_small_keys=1_000,
    checkpoint_large_keys=10_000,
    checkpoint_epochs=3,
    steady_epochs=12,
    steady_batch_rows=100,
    steady_keys=1_000,
    soak_epochs=80,
    beside_batches=12,
    beside_interval_s=1,
    lifecycle_checkpoints=5,
    driver_epochs=10,
    driver_jobs=3,
    peer_rows=20_000,
    peer_keys=2_000,
    growth_aggregate_rows=10_000,
    growth_processor_rows=1_000,
)
#: The sizes of the promises, once each: what a change has done to the backlogs, in half an hour.
_BRIEF = replace(Sizes(), rounds=1, engine_rounds=1, keyed_fresh_rounds=1, cold_rounds=1, generated_jobs=40)
PRESETS = {"tiny": _TINY, "small": _SMALL, "brief": _BRIEF, "full": Sizes()}


def preset_name() -> str:
    """The chosen preset."""
    name = os.environ.get("MIXEDMODE_BENCH_SIZE", "small")
    if name not in PRESETS:
        raise ValueError(f"MIXEDMODE_BENCH_SIZE is {name!r}; it must be one of {', '.join(PRESETS)}")
    return name


def chosen_sizes() -> Sizes:
    """The preset with what single variables change."""
    changes = {}
    for field in fields(Sizes):
        text = os.environ.get(f"MIXEDMODE_BENCH_{field.name.upper()}")
        if text is not None:
            changes[field.name] = int(text)
    return replace(PRESETS[preset_name()], **changes)
