"""Holds the values of all options, parsed and checked: what a run does where the user has a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .protocols.rows_per_call import RowsPerCall
from .support.frozen import Frozen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The least that an event log must be allowed to take.
MIN_LOG_BYTES = 4 * 1024 * 1024


class Settings(Frozen):
    """All options, parsed and checked; durations in milliseconds, sizes in bytes."""

    runtime_mode: Literal["batch", "streaming", "mixed"] = "mixed"
    interval_during_backlog_ms: int = 0
    #: None: ``auto``, a checkpoint for each epoch that changes something, one at a time.
    checkpoint_interval_ms: int | None = None
    checkpoint_min_pause_ms: int = 0
    #: How many epochs may be processed while a checkpoint is being completed.
    max_pending_epochs: int = 100
    checkpoint_timeout_ms: int = 600_000
    tolerable_failed_checkpoints: int = 0
    #: How long the counter of a driver elsewhere must stand still before another one takes its location over.
    lease_expiry_ms: int = 30_000
    #: Time between two counts of the driver that has the location.
    lease_heartbeat_ms: int = 5_000
    #: Whether a DataFrameWriter format honours txnAppId and txnVersion; None: if it is known to (Delta).
    sink_transactional: bool | None = None
    sink_delivery_guarantee: Literal["exactly-once", "at-least-once"] | None = None
    #: Column added to what is delivered per checkpoint: the order of a key's rows; None: there is none.
    sink_order_column: str | None = None
    #: Whether the run looks for requests of other processes in its checkpoint location.
    remote_control: Literal["on", "off"] = "on"
    #: What a job that begins does about rows that its output holds.
    sink_existing: Literal["auto", "append", "replace"] = "auto"
    #: What was asked for; each stage has what it comes to (see ``planner.plans.final_watermark``).
    final_watermark: Literal["auto", "max", "observed"] = "auto"
    #: In a plan: how rows and event-time timers of a key are ordered, whoever chose it.
    timers: Literal["in-order", "after-rows"] | None = None
    #: Savepoint that a new checkpoint location begins with; None: the job begins with nothing.
    savepoint_path: str | None = None
    #: State of the savepoint that the job does not have is dropped; False: it is an error.
    savepoint_ignore_unclaimed: bool = False
    #: Whether SIGTERM ends the query in good order; False: it is the program's matter.
    stop_on_sigterm: bool = True
    #: How long ``stop()`` waits for what is in hand before the run is given up; None: for as long as it takes.
    stop_timeout_ms: int | None = None
    #: Whether Python workers are started beside the preparations of an application's first job.
    start_workers: bool = True
    #: What a job with ``trigger(realTime=…)`` does where task slots are missing.
    realtime_fallback: Literal["none", "micro-batch"] = "none"
    #: Folder for the savepoints that SIGTERM ends the query with; None: it ends with a checkpoint.
    savepoint_on_sigterm: str | None = None
    #: Whether rate limits of the live source cut its backlog, too, into a sorted pass for each micro-batch.
    backlog_limits: Literal["auto", "lifted", "source"] = "auto"
    #: What one call of a function gets of a key in a sorted pass; None: all rows, or those of one event time.
    rows_per_call: RowsPerCall | None = None
    #: Who reads and aggregates a history: tasks with Arrow, or Spark; auto: Arrow where it gives the same, and pays.
    backlog_engine: Literal["auto", "spark", "arrow"] = "auto"
    backlog_float_sums: Literal["fast", "spark"] = "fast"
    #: The most shards that a sorted pass works on at once, and the most tasks that read for it; None: no limit.
    backlog_max_cores: int | None = None
    #: A driver that restarts in the backlog takes over the shards that an earlier run had finished.
    reuse_finished_shards: bool = True
    history_rows_per_epoch: int = 1_000_000
    max_parallelism: int = 128
    #: Number of shards; None: the Spark context's default parallelism (or what the checkpoint holds).
    parallelism: int | None = None
    watermark_lag_threshold_ms: int | None = None
    #: Least time between two steps of the watermark; 0: it moves with every epoch.
    watermark_interval_ms: int = 0
    #: Time without rows after which a live input does not hold the others' watermark back; None: never.
    watermark_idle_timeout_ms: int | None = None
    #: Folder for rows that came too late; None: they are dropped.
    late_data_path: str | None = None
    #: Whether runs write their events below the checkpoint location.
    event_log_enabled: bool = True
    #: The most that those of all runs may take.
    event_log_max_bytes: int = 64 * 1024 * 1024
    #: The most that one operator event, or a shard's own state, may take.
    operator_event_max_bytes: int = 1024 * 1024
    retained_checkpoints: int = 2
    state_local_dir: str | None = None
    state_cache_bytes: int = 256 * 1024 * 1024
    sorter_engine: Literal["auto", "spark", "arrow"] = "auto"
    sorter_memory_bytes: int = 256 * 1024 * 1024
    sorter_spill_dir: str | None = None

    def shards(self, spark: SparkSession) -> int:
        """How many shards a job begins with; one that goes on has those of its checkpoint, unless told otherwise."""
        return self.parallelism or min(spark.sparkContext.defaultParallelism, self.max_parallelism)
