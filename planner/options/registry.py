"""The registry of all options: their names, how values are read and written, what they are for.

How values from several places become :class:`~mixedmode.runtime.spec.Settings`: :mod:`.layers`.
"""

from __future__ import annotations

from ...runtime.settings import MIN_LOG_BYTES
from ...runtime.storage.folder_checks import local_path
from ...sorter.external import MIN_MEMORY_BYTES
from ...state.keys.keygroups import MAX_PARALLELISM_LIMIT
from .option import Option, choice
from .values import (
    format_size_bytes,
    int_between,
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

_DURATION = "a duration with a unit such as '10 s', '500 ms' or '1 hour'"
_SIZE = "a size greater than 0 such as '256 MiB'"

#: Every option there is.
OPTIONS: tuple[Option, ...] = (
    choice(
        "execution.runtime-mode",
        "runtime_mode",
        "how the job runs: `batch` processes everything as a batch, `streaming` everything as a stream, `mixed` the "
        "backlog as a batch and then the stream",
    ),
    Option(
        "execution.interval-during-backlog",
        "interval_during_backlog_ms",
        parse_duration_ms,
        "0 (no checkpoint in the backlog) or a duration of at least execution.checkpointing.interval",
        "time between checkpoints in a backlog. `0`: no checkpoints, and the backlog runs at batch speed. A "
        "duration: the backlog runs as a stream; it must be at least `execution.checkpointing.interval` if that is a "
        "duration",
        alias="execution.checkpointing.interval-during-backlog",
    ),
    Option(
        "execution.checkpointing.interval",
        "checkpoint_interval_ms",
        parse_auto_or_duration_ms,
        f"auto, or {_DURATION}, greater than 0",
        "time between checkpoints of the stream. `auto`: a checkpoint follows each epoch that has changed state or "
        "output, as soon as the previous checkpoint is complete, so that the rows become visible at once",
        unset="auto",
    ),
    Option(
        "execution.checkpointing.min-pause",
        "checkpoint_min_pause_ms",
        parse_duration_ms,
        f"{_DURATION}, or 0",
        "minimum time between the end of a checkpoint and the start of the next",
    ),
    Option(
        "execution.checkpointing.max-pending-epochs",
        "max_pending_epochs",
        int_between(1),
        "a whole number, 1 or more",
        "maximum number of epochs that run while one checkpoint is being completed; the next epoch waits for it",
    ),
    Option(
        "execution.checkpointing.timeout",
        "checkpoint_timeout_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "time after which a checkpoint is aborted",
    ),
    Option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        "tolerable_failed_checkpoints",
        int_between(0),
        "a whole number, 0 or more",
        "number of checkpoints in a row that may fail before the query fails",
    ),
    Option(
        "execution.lease.expiry",
        "lease_expiry_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, at least four times execution.lease.heartbeat-interval",
        "time without a sign of life after which a driver takes the `checkpointLocation` over from a driver on "
        "another host; `start()` waits that long. On the same host `start()` checks the process of the other driver "
        "and does not wait",
    ),
    Option(
        "execution.lease.heartbeat-interval",
        "lease_heartbeat_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, at most a quarter of execution.lease.expiry",
        "time between two signs of life of a driver",
    ),
    Option(
        "execution.sink.transactional",
        "sink_transactional",
        parse_bool,
        "true, false",
        "whether the format skips an append whose `txnAppId` and `txnVersion` it has already seen, which makes the "
        "sink exactly-once. Unset: true for `delta`, false for others (`iceberg` does it in another way)",
    ),
    choice(
        "execution.sink.delivery-guarantee",
        "sink_delivery_guarantee",
        "the guarantee of the sink. Unset: the best one that the format has. For `kafka` it also chooses the client",
        alias="sink.delivery-guarantee",
    ),
    Option(
        "execution.sink.order-column",
        "sink_order_column",
        parse_name,
        "a name that no output column has",
        "name of a `bigint` column that is added to the output of sinks that write once per checkpoint. It is "
        "greater in a later row of the same key",
    ),
    choice(
        "execution.sink.existing",
        "sink_existing",
        "what a job with a new `checkpointLocation` does about rows that its output holds. `auto`: `start()` fails if"
        " this job has written them under another `checkpointLocation`; to rows of others it appends, with a warning."
        " `append`: it appends. `replace`: its first commit removes them",
    ),
    choice(
        "execution.backlog.final-watermark",
        "final_watermark",
        "which windows and timers fire at the switch. `max`: all of them. `observed`: those that the watermark of "
        "the backlog has passed; the others are carried into the stream. `auto`: for each stage `observed` if "
        "something can straddle the switch, else `max`. `start()` refuses `max` for some jobs",
    ),
    choice(
        "execution.backlog.limits",
        "backlog_limits",
        "whether rate limits of the live source (`maxOffsetsPerTrigger`, `maxFilesPerTrigger`, …) hold in the backlog. "
        "`lifted`: they hold for the stream only. `source`: they cut the backlog into one sorted pass for each "
        "micro-batch, and each pass is merged with the state so far; without state there are micro-batches from the "
        "start. `auto`: `source` if the job keeps no state and has not `trigger(once=True)`, else `lifted`",
    ),
    Option(
        "execution.backlog.rows-per-call",
        "rows_per_call",
        parse_rows_per_call,
        "a whole number of rows, 1 or more, or a span of event time such as '1 hour'",
        "maximum rows of a key that one call of a processor, or of the function of `applyInPandasWithState`, gets in "
        "the backlog. Unset: all rows of the key, or those of one event time if timers fire in order",
    ),
    choice(
        "execution.backlog.engine",
        "backlog_engine",
        "the engine that reads a history of Parquet files. `arrow`: the Python workers, for aggregates, "
        "deduplications and joins whose results are known to equal Spark's, else an error at `start()`. `spark`: "
        "Spark. `auto`: `arrow` if possible and if the files are not small, or Spark has run few jobs so far, else "
        "`spark`; `explain()` shows the choice and the reason",
    ),
    choice(
        "execution.backlog.float-sums",
        "backlog_float_sums",
        "how `execution.backlog.engine` = `arrow` adds doubles, for `sum` and `avg`. `fast`: in any order, so the last "
        "digits may differ from run to run, as they do in Spark; a sum of n values is off by at most n * 2^-52 times "
        "the sum of their absolute values. `spark`: Spark reads histories whose doubles are added",
    ),
    Option(
        "execution.backlog.max-cores",
        "backlog_max_cores",
        int_between(1),
        "a whole number, 1 or more",
        "maximum number of tasks that a backlog runs at once, to read its sources and to process its shards. Unset: no"
        " limit. Not limited: shuffles of your own in a source, Spark's part of the first backlog of a join, and jobs"
        " after the last stage",
    ),
    Option(
        "execution.backlog.reuse-finished-shards",
        "reuse_finished_shards",
        parse_bool,
        "true, false",
        "whether a restart in the backlog reuses the shards that had finished, if the backlog is provably the same",
    ),
    Option(
        "execution.savepoint.path",
        "savepoint_path",
        parse_path,
        "the folder of a savepoint",
        "savepoint from which a new `checkpointLocation` starts",
    ),
    Option(
        "execution.savepoint.ignore-unclaimed-state",
        "savepoint_ignore_unclaimed",
        parse_bool,
        "true, false",
        "whether state of the savepoint that the job does not have is dropped. `false`: it raises an error",
    ),
    Option(
        "execution.savepoint.on-sigterm",
        "savepoint_on_sigterm",
        parse_path,
        "a folder",
        "folder below which the job writes a savepoint, in a new folder, when SIGTERM ends it. Unset: it ends with a"
        " checkpoint",
    ),
    Option(
        "execution.stop-on-sigterm",
        "stop_on_sigterm",
        parse_bool,
        "true, false",
        "whether SIGTERM ends the job with a checkpoint (a second SIGTERM ends the process at once). `false`: "
        "SIGTERM has its usual effect",
    ),
    Option(
        "execution.stop.timeout",
        "stop_timeout_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "time that `stop()` waits for a running function or task before it cancels the Spark jobs and gives the run up."
        " The next start processes again what has no checkpoint. Unset: no limit",
    ),
    choice(
        "execution.remote-control",
        "remote_control",
        "`off`: the run does not look for requests of `mixedmode stop`, `savepoint`, `pause`, `resume` and `rescale`,"
        " and the commands say so; `on`: whoever may write to the `checkpointLocation` can send some",
    ),
    choice(
        "execution.realtime.fallback",
        "realtime_fallback",
        "what a job with `trigger(realTime=…)` does if the application has too few task slots. `none`: `start()` fails."
        " `micro-batch`: the live phase runs as micro-batches, with a warning",
    ),
    Option(
        "execution.start-workers",
        "start_workers",
        parse_bool,
        "true, false",
        "whether a small Spark job starts the Python workers, with their imports, while the first job of a Spark "
        "application is prepared. `false`: the first tasks wait for them",
    ),
    Option(
        "execution.event-log.enabled",
        "event_log_enabled",
        parse_bool,
        "true, false",
        "whether runs write their events below the `checkpointLocation`, for `mixedmode history`, `watch` and `report`",
    ),
    Option(
        "execution.event-log.max-bytes",
        "event_log_max_bytes",
        size_of_at_least(MIN_LOG_BYTES),
        f"a size of at least {format_size_bytes(MIN_LOG_BYTES)}, such as '64 MiB'",
        "maximum size of the event log of all runs together. Old events are merged, then removed",
    ),
    Option(
        "execution.operator-event.max-bytes",
        "operator_event_max_bytes",
        parse_size_bytes,
        _SIZE,
        "maximum size of one event between a coordinator and the shards, and of a shard's own state",
    ),
    Option(
        "execution.history.rows-per-epoch",
        "history_rows_per_epoch",
        int_between(1),
        "a whole number, 1 or more",
        "rows of history in one epoch, if the history runs as a stream",
    ),
    Option(
        "pipeline.max-parallelism",
        "max_parallelism",
        int_between(1, MAX_PARALLELISM_LIMIT),
        f"a whole number from 1 to {MAX_PARALLELISM_LIMIT}",
        "number of key groups, and so the maximum number of shards; fixed with the first run",
    ),
    Option(
        "pipeline.parallelism",
        "parallelism",
        int_between(1, MAX_PARALLELISM_LIMIT),
        "a whole number from 1 to pipeline.max-parallelism",
        "number of shards. Unset: Spark's default parallelism, or the number in the checkpoint",
    ),
    Option(
        "pipeline.backlog.watermark-lag-threshold",
        "watermark_lag_threshold_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "lag of the watermark beyond which a live source with waiting rows is in backlog again",
    ),
    choice(
        "pipeline.timers",
        "timers",
        "when the event-time timers of a key fire. `in-order`: between its rows, when event time passes them. "
        "`after-rows`: after all rows of the epoch, as in Spark. Unset: `in-order`, but `after-rows` if "
        "`execution.backlog.final-watermark` is set to `max`",
    ),
    Option(
        "pipeline.auto-watermark-interval",
        "watermark_interval_ms",
        parse_duration_ms,
        f"{_DURATION}, or 0 (with every epoch)",
        "minimum time between two steps of the watermark. `0`: it moves with every epoch",
    ),
    Option(
        "pipeline.watermark.idle-timeout",
        "watermark_idle_timeout_ms",
        parse_positive_duration_ms,
        f"{_DURATION}, greater than 0",
        "time without rows after which a live input no longer holds the watermark of the others back",
    ),
    Option(
        "pipeline.late-data.path",
        "late_data_path",
        parse_path,
        "a folder",
        "folder for late rows, as Parquet. Unset: late rows are dropped and counted",
    ),
    Option(
        "state.checkpoints.num-retained",
        "retained_checkpoints",
        int_between(1),
        "a whole number, 1 or more",
        "number of complete checkpoints that are kept",
    ),
    Option(
        "state.local-dir",
        "state_local_dir",
        local_path,
        "a local folder on the executors",
        "folder on the executors for working copies of the state; they are in a subfolder `mixedmode` that other users "
        "cannot read. Unset: Spark's scratch folder",
    ),
    Option(
        "state.cache-size",
        "state_cache_bytes",
        parse_size_bytes,
        _SIZE,
        "size of the block cache of RocksDB in each Python worker",
    ),
    choice(
        "sorter.engine",
        "sorter_engine",
        "what sorts a backlog: `spark` in the JVM, or `arrow` in the Python worker. `auto`: `arrow`, unless the "
        "history of a processor is more than ten times `sorter.memory` per shard",
    ),
    Option(
        "sorter.memory",
        "sorter_memory_bytes",
        size_of_at_least(MIN_MEMORY_BYTES),
        f"a size of at least {format_size_bytes(MIN_MEMORY_BYTES)}, such as '256 MiB'",
        "memory budget of the sorter of one task (engine `arrow`)",
    ),
    Option(
        "sorter.spill-dir",
        "sorter_spill_dir",
        local_path,
        "a local folder on the executors",
        "folder into which the sorter spills. Unset: a subfolder of `state.local-dir`, or of Spark's scratch folder",
    ),
)
