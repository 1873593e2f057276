"""What is promised: one line per figure, with the limit and the sizes for which it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sizes import GENERATED_KEYS, GENERATED_TIMES, Sizes


@dataclass(frozen=True)
class Target:
    """A figure and its limit."""

    id: str
    what: str
    sense: Literal["at least", "at most"]
    limit: float
    unit: str

    def is_met(self, measured: float) -> bool:
        """True if the figure is within the limit."""
        return measured >= self.limit if self.sense == "at least" else measured <= self.limit

    def show(self, figure: float) -> str:
        """The figure with its unit."""
        if self.unit == "x":
            return f"{figure:.2f} x"
        return f"{figure:.3g} {self.unit}" if abs(figure) < 100 else f"{figure:,.0f} {self.unit}".strip()


#: Jobs of ``test_keyed_rows.py``: in a warm session, and in a fresh process.
_ROWS = (
    *((f"dedup-{job}", 1.5, 1.2) for job in ("long-few", "long-many", "uuid-few", "uuid-many", "timed", "within")),
    ("dedup-windows", 1.5, 1.2),
    ("join-inner", 1.2, 1.1),
    ("join-left", 1.2, 1.1),
)

#: Jobs of ``engine_jobs.py``: in a warm session, and in a fresh process.
_ENGINES = (
    *((job, 2.0, 1.3) for job in ("integers", "decimals, two keys", "filter and computed columns")),
    ("doubles", 1.7, 1.3),
    ("uuid keys", 1.6, 1.3),
    *((f"window and key, {groups}", 1.1, 1.1) for groups in ("a row a group", "50 rows a group")),
    ("sliding windows", 1.1, 1.1),
    ("JSON text", 1.0, 1.0),
)

TARGETS = (
    Target("aggregate-plain", "backlog, aggregate: speed against plain batch without state", "at least", 0.85, "x"),
    Target("aggregate-handover", "backlog, aggregate, a tenth waiting live: time by that of all in the history",
           "at most", 1.05, "x"),
    Target("aggregate-arrow-plain", "backlog, aggregate of numbers: speed against plain batch",
           "at least", 1.5, "x"),
    Target("aggregate-stock", "backlog, aggregate: speed against stock in ten micro-batches", "at least", 10, "x"),
    Target("dedup-plain", "backlog, dedup: speed against plain batch without state", "at least", 0.8, "x"),
    Target("dedup-stock", "backlog, dedup: speed against stock in ten micro-batches", "at least", 10, "x"),
    Target("stages-plain", "backlog, dedup and then windows: speed against plain batch without state", "at least", 0.6,
           "x"),
    Target("stages-stock", "backlog, dedup and then windows: speed against stock in ten micro-batches", "at least", 10,
           "x"),
    Target("row-order-dedup", "backlog, dedup that keeps the first row: time by that of any row", "at most", 1.1, "x"),
    Target("row-order-processor", "backlog, processor in the order of rows: time by that of any order", "at most", 1.1,
           "x"),
    Target("join-plain", "backlog, range join: speed against plain batch without state, to Parquet", "at least", 0.6,
           "x"),
    Target("join-stock", "backlog, range join: speed against stock in ten micro-batches", "at least", 10, "x"),
    Target("processor-stock", "backlog, processor: speed against stock in ten micro-batches", "at least", 30, "x"),
    Target("life-stock", "backlog, processor with a list, a map and a timer: speed against stock in ten micro-batches",
           "at least", 30, "x"),
    Target("pandas-stock", "backlog, processor on pandas frames: speed against stock in ten micro-batches", "at least",
           30, "x"),
    Target("timers-order", "backlog, timers between the rows: time by that of timers after them, 2 event times a key",
           "at most", 1.5, "x"),
    Target("timers-2-stock", "backlog, timers between the rows: speed against stock, 2 event times a key", "at least",
           10, "x"),
    Target("timers-10-stock", "backlog, timers between the rows: speed against stock, 10 event times a key", "at least",
           10, "x"),
    Target("stream-processor-stock", "stream, processor: rows/s in large micro-batches, against stock", "at least", 15,
           "x"),
    Target("stream-aggregate-stock", "the same of an aggregate", "at least", 1.5, "x"),
    Target("latency-processor-large", "stream, processor: p50 of small micro-batches on a large state, by stock's",
           "at most", 0.35, "x"),
    Target("latency-processor-small", "the same on a small state", "at most", 0.35, "x"),
    Target("latency-aggregate-large", "stream, aggregate: p50 of small micro-batches on a large state, by stock's",
           "at most", 0.5, "x"),
    Target("latency-aggregate-small", "the same on a small state", "at most", 0.5, "x"),
    Target("latency-dedup-stock", "stream, dedup and then windows: p50 of small micro-batches, by stock's", "at most",
           0.5, "x"),
    Target("latency-processor-stock", "stream, processor and then windows: p50 of small micro-batches, by stock's",
           "at most", 0.5, "x"),
    Target("latency-join-stock", "stream, range join: p50 of small micro-batches on a large state, by stock's",
           "at most", 0.5, "x"),
    *(
        Target(f"epoch-{shape}-{rows}", f"live epoch, {what}, {rows:,} rows: p50 by stock's with the same log",
               "at most", 0.5, "x")
        for shape, what in {"aggregate": "aggregate", "dedup": "deduplication", "join": "range join",
                            "stages": "dedup and then windows"}.items()
        for rows in (100, 1_000)
    ),
    Target("visible-foreachBatch", "from a file that lands to its rows in foreachBatch: p50, by stock's", "at most",
           0.8, "x"),
    Target("visible-parquet", "the same to Parquet files", "at most", 0.8, "x"),
    Target("visible-kafka-at-least-once", "the same to Kafka", "at most", 0.8, "x"),
    Target("visible-kafka-exactly-once", "the same to Kafka in transactions, which stock has none of", "at most", 1.2,
           "x"),
    Target("first-live", "first result of 900 rows in a warm session, by stock's", "at most", 1, "x"),
    Target("first-history", "the same of a history and a live source", "at most", 1, "x"),
    Target("kafka-plain", "Kafka backlog, aggregate: speed against plain batch over the topic", "at least", 0.8, "x"),
    Target("kafka-aggregate-stock", "Kafka backlog, aggregate: speed against stock in ten micro-batches", "at least",
           10, "x"),
    Target("kafka-windows-plain", "Kafka backlog, windows under max: speed against plain batch over the topic",
           "at least", 0.8, "x"),
    Target("kafka-observed-plain", "Kafka backlog, windows under observed: speed against plain batch over the topic",
           "at least", 0.4, "x"),
    Target("kafka-processor-stock", "Kafka backlog, processor: speed against stock in ten micro-batches", "at least",
           10, "x"),
    Target("kafka-latency-stock", "Kafka stream, processor: p50 of small micro-batches, by stock's", "at most", 0.5,
           "x"),
    Target("cold-aggregate", "cold start, aggregate: from start() to live, by stock's first micro-batch", "at most",
           0.85, "x"),
    Target("cold-processor", "the same of a processor", "at most", 1, "x"),
    Target("cost-life-10", "processor with list, map and timer, CPU of its worker at 10 rows a key", "at most", 9,
           "µs a row"),
    Target("cost-life-2", "the same at 2 rows a key", "at most", 16, "µs a row"),
    Target("cost-trivial-2", "trivial processor, CPU of its worker at 2 rows a key", "at most", 3.5, "µs a row"),
    Target("migration-processor", "migration to a complete checkpoint, state of a processor", "at least", 1e6,
           "keys/s/core"),
    Target("migration-aggregate", "migration to a complete checkpoint, state of an aggregate", "at least", 1e6,
           "keys/s/core"),
    # Each file is read by the two shards that have its key groups; with each read by all of them it would be 8 x.
    Target("rescale-twice", "replicas of twice the shards, CPU by that of as many as before", "at most", 2.5, "x"),
    Target("compaction-debt", "pending compaction of a replica right after migration", "at most", 0, "bytes"),
    Target("sorter-memory", "external sorter, memory by its budget", "at most", 1.25, "x"),
    Target("backlog-memory", "Python worker in a backlog, memory by the sorter's budget", "at most", 1.25, "x"),
    Target("checkpoint-bytes", "bytes of an incremental checkpoint, large state against small", "at most", 5, "x"),
    Target("lifecycle-checkpoint", "lifecycle of the tasks: the driver's CPU for a checkpoint, 3 stages of 512 shards",
           "at most", 2_000, "µs"),
    Target("lifecycle-growth", "the same: growth from 8 shards to 512, by linear growth", "at most", 1, "x"),
    Target("driver-epoch", "the driver's CPU for an epoch whose tasks do nothing, 1,024 shards", "at most", 100, "ms"),
    Target("driver-checkpoint", "the driver's CPU for a checkpoint of 5 such epochs", "at most", 500, "ms"),
    Target("driver-epoch-growth", "an epoch: growth from 8 shards to 1,024, by linear growth", "at most", 1, "x"),
    Target("driver-checkpoint-growth", "a checkpoint: the same", "at most", 1, "x"),
    Target("driver-task-read", "its worker's CPU until a task of 1,024 knows what to do", "at most", 5, "ms"),
    Target("beside-p99", "stream, store and sink slow: p99 of micro-batches with checkpoints, by that without",
           "at most", 1.15, "x"),
    Target("often-cpu", "stream, a checkpoint behind each epoch: CPU of all processes, by one in 10 s", "at most",
           1.15, "x"),
    Target("steady-latency", "steady stream, p50 of an epoch without Spark's listing of the folder, last quarter"
           " against second", "at most", 1.25, "x"),
    Target("steady-files", "steady stream, files by checkpoint that is there, last quarter against second", "at most",
           1.25, "x"),
    Target("steady-memory", "steady stream, memory of the Python processes, last quarter against second", "at most",
           1.25, "x"),
    Target("steady-metadata", "steady stream, size of _metadata, last quarter against second", "at most", 1.25, "x"),
    *(
        Target(f"soak-{name}", f"soak without Spark, {what}, last quarter against second", "at most", 1.25, "x")
        for name, what in {"files": "files by checkpoint that is there", "python": "memory of the driver",
                           "handles": "open handles", "threads": "threads", "metadata": "size of _metadata"}.items()
    ),
    Target("steady-handles", "steady stream, open handles of all processes, last quarter against second", "at most",
           1.25, "x"),
    *(
        Target(f"engines-{start}{job}", f"backlog by engine, {job}{how}: speed against plain", "at least", limit, "x")
        for job, *limits in _ENGINES
        for start, how, limit in zip(("", "fresh-"), ("", ", fresh process"), limits, strict=True)
    ),
    *(
        Target(f"engines-{start}spark-{job}", f"the same with engine=spark, {job}{how}", "at least", limit, "x")
        for job, *_ in _ENGINES
        for start, how, limit in (("", "", 0.95), ("fresh-", ", fresh process", 0.85))
    ),
    *(
        Target(f"generated-jobs-{keys}-keys-{times}", "generated aggregate jobs,"
               f" {times * Sizes().generated_rows / 1e6:g} M rows, {keys:,} keys: share of which auto has 0.95 of"
               " engine=spark's speed at least", "at least", 1, "")
        for keys in GENERATED_KEYS
        for times in GENERATED_TIMES
    ),
    *(
        Target(f"rows-{job}-{start}", f"backlog of rows, {job}, {start}: speed against plain", "at least", limit, "x")
        for job, *limits in _ROWS
        for start, limit in zip(("warm", "fresh"), limits, strict=True)
    ),
)  # fmt: skip
BY_ID = {target.id: target for target in TARGETS}
