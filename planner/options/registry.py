"""The registry of all options: their names, how values are read and written, what they are for.

How values from several places become :class:`~mixedmode.runtime.spec.Settings`: :mod:`.layers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...runtime.protocols.rows_per_call import RowsPerCall
from ...runtime.spec import MIN_LOG_BYTES, Settings
from ...sorter.external import MIN_MEMORY_BYTES
from ...state.keygroups import MAX_PARALLELISM_LIMIT
from .values import (
    format_duration_ms,
    format_rows_per_call,
    format_size_bytes,
    int_between,
    one_of,
    parse_auto_or_duration_ms,
    parse_bool,
    parse_duration_ms,
    parse_name,
    parse_path,
    parse_positive_duration_ms,
    parse_rows_per_call,
    parse_size_bytes,
    size_of_at_least,
)


@dataclass(frozen=True)
class Option:
    """One option: what it is called, where its value goes, how it is read."""

    name: str
    #: Field of :class:`Settings`; its default is the option's default.
    field: str
    parse: Callable[[str], Any]
    #: The allowed values in words, for error messages.
    allowed: str
    doc: str
    #: A second name of the same option.
    alias: str | None = None
    #: What a user writes for None.
    unset: str = "unset"

    @property
    def default(self) -> Any:
        return Settings.model_fields[self.field].default

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,) if self.alias is None else (self.name, self.alias)


_DURATION = "a duration with a unit such as '10 s', '500 ms' or '1 hour'"
_SIZE = "a size greater than 0 such as '256 MiB'"

#: Every option there is.
OPTIONS: tuple[Option, ...] = (
    Option(
        "execution.runtime-mode",
        "runtime_mode",
        one_of("batch", "streaming", "mixed"),
        "batch, streaming, mixed",
        "how the job runs: all as a batch, all as a stream, or the backlog as a batch and then the stream",
    ),
    Option(
        "execution.interval-during-backlog",
        "interval_during_backlog_ms",
        parse_duration_ms,
        "0 (no checkpoint in the backlog) or a duration of at least execution.checkpointing.interval",
        "time between checkpoints while in backlog; 0: none, and the backlog runs at batch speed; otherwise "
        "at least `execution.checkpointing.interval`, where that is a duration",
        alias="execution.checkpointing.interval-during-backlog",
    ),
    Option(
        "execution.checkpointing.interval",
        "checkpoint_interval_ms",
        parse_auto_or_duration_ms,
        f"auto, or {_DURATION}, greater than 0",
        "`auto`: a checkpoint follows each epoch that has changed state or output, as soon as the one before is"
        " complete, so that its rows are visible at once; or the time between checkpoints of the stream",
        unset="auto",
    ),
    Option(
        "execution.checkpointing.min-pause",
        "checkpoint_min_pause_ms",
        parse_duration_ms,
        f"{_DURATION}, or 0",
        "least time between the end of a checkpoint and the start of the next",
    ),
    Option(
        "execution.checkpointing.max-pending-epochs",
        "max_pending_epochs",
        int_between(1),
        "a whole number, 1 or more",
        "how many epochs may be processed while one checkpoint is being completed; the next one waits for it",
    ),
    Option(
        "execution.checkpointing.timeout",
        "checkpoint_timeout_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "a checkpoint that takes longer is given up",
    ),
    Option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        "tolerable_failed_checkpoints",
        int_between(0),
        "a whole number, 0 or more",
        "how many checkpoints in a row may fail before the query does",
    ),
    Option(
        "execution.lease.expiry",
        "lease_expiry_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, at least four times execution.lease.heartbeat-interval",
        "how long a driver on another host must give no sign of life before a second one takes its "
        "`checkpointLocation` over; `start()` waits as long. A driver on the same host is asked by its pid, "
        "at once",
    ),
    Option(
        "execution.lease.heartbeat-interval",
        "lease_heartbeat_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, at most a quarter of execution.lease.expiry",
        "time between two signs of life; at most a quarter of the expiry",
    ),
    Option(
        "execution.sink.transactional",
        "sink_transactional",
        parse_bool,
        "true, false",
        "whether a format that Spark writes skips an append whose `txnAppId` and `txnVersion` it has seen, "
        "which makes it exactly-once; unset: yes for `delta`, no for others (`iceberg` has a way of its own)",
    ),
    Option(
        "execution.sink.delivery-guarantee",
        "sink_delivery_guarantee",
        one_of("exactly-once", "at-least-once"),
        "exactly-once, at-least-once",
        "what the output must give; unset: the most that the format can. For `kafka` it chooses the client",
        alias="sink.delivery-guarantee",
    ),
    Option(
        "execution.sink.order-column",
        "sink_order_column",
        parse_name,
        "a name that no output column has",
        "name of a `bigint` column that is added to what a sink gets once per checkpoint: greater in a later "
        "row of the same key",
    ),
    Option(
        "execution.sink.existing",
        "sink_existing",
        one_of("auto", "append", "replace"),
        "auto, append, replace",
        "what a job with a new `checkpointLocation` does about rows that its output holds. `auto`: `start()` fails if"
        " this job has written them under another `checkpointLocation`; to rows of others it appends, with a warning."
        " `append`: it appends. `replace`: its first commit removes them",
    ),
    Option(
        "execution.backlog.final-watermark",
        "final_watermark",
        one_of("auto", "max", "observed"),
        "auto, max, observed",
        "what fires at the switch: `max`: every timer and window; `observed`: those that the backlog's own watermark "
        "has passed, the rest is carried into the stream; `auto`: for each stage `observed` where something can "
        "straddle the switch, else `max`. Some jobs refuse `max`",
    ),
    Option(
        "execution.backlog.limits",
        "backlog_limits",
        one_of("lifted", "source"),
        "lifted, source",
        "rate limits of the live source (`maxOffsetsPerTrigger`, `maxFilesPerTrigger`…) are for the stream "
        "alone; `source`: they cut the backlog, too, into a sorted pass for each micro-batch, each merged "
        "with the state so far",
    ),
    Option(
        "execution.backlog.rows-per-call",
        "rows_per_call",
        parse_rows_per_call,
        "a whole number of rows, 1 or more, or a span of event time such as '1 hour'",
        "the most rows of a key that one call of a processor, or of the function of `applyInPandasWithState`, gets in "
        "the backlog; unset: all rows of the key, or those of one event time where timers fire in order",
    ),
    Option(
        "execution.backlog.engine",
        "backlog_engine",
        one_of("auto", "spark", "arrow"),
        "auto, spark, arrow",
        "who reads and aggregates a history of Parquet files before its rows go to their shards: `arrow` in the Python"
        " workers, for aggregates that it is known to give the same of as Spark, else an error at `start()`; `spark`;"
        " `auto`: `arrow` where it can be had and the files are not small, else `spark`. `explain()` says which, and"
        " why",
    ),
    Option(
        "execution.backlog.max-cores",
        "backlog_max_cores",
        int_between(1),
        "a whole number, 1 or more",
        "the most tasks at once of a backlog's sorted pass, by which it reads its sources and works on shards; unset:"
        " all that Spark has. Shuffles of your own in a source, Spark's part of a join's first backlog and what follows"
        " the last stage in a job of its own are not limited",
    ),
    Option(
        "execution.backlog.reuse-finished-shards",
        "reuse_finished_shards",
        parse_bool,
        "true, false",
        "whether a restart in the backlog takes over the shards that had finished, if the backlog is provably the same",
    ),
    Option(
        "execution.savepoint.path",
        "savepoint_path",
        parse_path,
        "the folder of a savepoint",
        "savepoint that a new `checkpointLocation` begins with",
    ),
    Option(
        "execution.savepoint.ignore-unclaimed-state",
        "savepoint_ignore_unclaimed",
        parse_bool,
        "true, false",
        "whether state of the savepoint that the job does not have is dropped; `false`: it is an error",
    ),
    Option(
        "execution.savepoint.on-sigterm",
        "savepoint_on_sigterm",
        parse_path,
        "a folder",
        "where SIGTERM has the job write a savepoint that it ends with, each in a folder of its own below this; unset:"
        " it ends with a checkpoint",
    ),
    Option(
        "execution.stop-on-sigterm",
        "stop_on_sigterm",
        parse_bool,
        "true, false",
        "whether SIGTERM ends the job in good order (a second one: the process, at once); false: it ends the process",
    ),
    Option(
        "execution.stop.timeout",
        "stop_timeout_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "how long `stop()` waits for a function or a task in hand before it cancels the Spark jobs and gives the run"
        " up; what has no checkpoint is processed again at the next start. Unset: `stop()` waits as long as it takes",
    ),
    Option(
        "execution.remote-control",
        "remote_control",
        one_of("on", "off"),
        "on, off",
        "`off`: the run does not look for requests of `mixedmode stop`, `savepoint`, `pause`, `resume` and `rescale`,"
        " and the commands say so; `on`: whoever may write to the `checkpointLocation` can send some",
    ),
    Option(
        "execution.start-workers",
        "start_workers",
        parse_bool,
        "true, false",
        "whether the first job of a Spark application has Python workers started, with what tasks import, while it is"
        " prepared, in a small Spark job of its own; false: its first tasks wait for them",
    ),
    Option(
        "execution.event-log.enabled",
        "event_log_enabled",
        parse_bool,
        "true, false",
        "whether runs write what they do below the `checkpointLocation`, for `mixedmode history`, `watch` and `report`",
    ),
    Option(
        "execution.event-log.max-bytes",
        "event_log_max_bytes",
        size_of_at_least(MIN_LOG_BYTES),
        f"a size of at least {format_size_bytes(MIN_LOG_BYTES)}, such as '64 MiB'",
        "the most that all runs together write there: what is old is told in less detail, then goes",
    ),
    Option(
        "execution.operator-event.max-bytes",
        "operator_event_max_bytes",
        parse_size_bytes,
        _SIZE,
        "the most that one event between a coordinator and the shards, or a shard's own state, may take",
    ),
    Option(
        "execution.history.rows-per-epoch",
        "history_rows_per_epoch",
        int_between(1),
        "a whole number, 1 or more",
        "rows of history in one epoch, when the history runs as a stream",
    ),
    Option(
        "pipeline.max-parallelism",
        "max_parallelism",
        int_between(1, MAX_PARALLELISM_LIMIT),
        f"a whole number from 1 to {MAX_PARALLELISM_LIMIT}",
        "number of key groups: the most shards that the state can ever be spread over",
    ),
    Option(
        "pipeline.parallelism",
        "parallelism",
        int_between(1, MAX_PARALLELISM_LIMIT),
        "a whole number from 1 to pipeline.max-parallelism",
        "number of shards; unset: Spark's default parallelism, or what the checkpoint has",
    ),
    Option(
        "pipeline.backlog.watermark-lag-threshold",
        "watermark_lag_threshold_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "the live source is in backlog again while its watermark lags by more than this and something waits",
    ),
    Option(
        "pipeline.timers",
        "timers",
        one_of("in-order", "after-rows"),
        "in-order, after-rows",
        "`in-order`: a key's event-time timers fire between its rows, where event time passes them; "
        "`after-rows`: after all rows of the epoch, as Spark's; unset: `in-order` under final watermark "
        "`observed`, `after-rows` under `max`",
    ),
    Option(
        "pipeline.auto-watermark-interval",
        "watermark_interval_ms",
        parse_duration_ms,
        f"{_DURATION}, or 0 (with every epoch)",
        "least time between two steps of the watermark; 0: it moves with every epoch",
    ),
    Option(
        "pipeline.watermark.idle-timeout",
        "watermark_idle_timeout_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "a live input without rows for this long does not hold the watermark of the others back",
    ),
    Option(
        "pipeline.late-data.path",
        "late_data_path",
        parse_path,
        "a folder",
        "folder where rows that came too late are written as Parquet; unset: they are dropped and counted",
    ),
    Option(
        "state.checkpoints.num-retained",
        "retained_checkpoints",
        int_between(1),
        "a whole number, 1 or more",
        "complete checkpoints that are kept",
    ),
    Option(
        "state.local-dir",
        "state_local_dir",
        parse_path,
        "a folder on the executors",
        "where executors keep working copies of the state, in a folder `mixedmode` closed to other users; "
        "unset: Spark's scratch folder",
    ),
    Option(
        "state.cache-size",
        "state_cache_bytes",
        parse_size_bytes,
        _SIZE,
        "block cache of a Python worker's RocksDB",
    ),
    Option(
        "sorter.engine",
        "sorter_engine",
        one_of("auto", "spark", "arrow"),
        "auto, spark, arrow",
        "who sorts a backlog: `spark` in the JVM, `arrow` in the Python worker; `auto`: `arrow`, unless a "
        "processor's history is more than ten times `sorter.memory` a shard",
    ),
    Option(
        "sorter.memory",
        "sorter_memory_bytes",
        size_of_at_least(MIN_MEMORY_BYTES),
        f"a size of at least {format_size_bytes(MIN_MEMORY_BYTES)}, such as '256 MiB'",
        "memory budget of one task's sorter (`arrow`); at least 256 KiB",
    ),
    Option(
        "sorter.spill-dir",
        "sorter_spill_dir",
        parse_path,
        "a folder on the executors",
        "where that sorter spills; unset: the temporary folder",
    ),
)


def format_value(option: Option, value: Any) -> str:
    """A setting as a user would write it."""
    if value is None:
        return option.unset
    if isinstance(value, RowsPerCall):
        return format_rows_per_call(value)
    if option.field.endswith("_ms"):
        return format_duration_ms(value)
    if option.field.endswith("_bytes"):
        return format_size_bytes(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
