"""The mode rules: which phases a job goes through, and why (FLIP-327, FLIP-309).

Pure functions of the settings and of facts about the job.  What they return is both what ``explain()`` prints and what
``start()`` executes, so neither can drift from the other.

========================================  ==========================================================================
the job                                    its phases
========================================  ==========================================================================
``batch``                                  backlog, finish
``mixed``, interval-during-backlog 0       backlog, switch, live; without a live source: backlog, finish
``mixed``, interval-during-backlog > 0     as ``streaming``, with that interval while in backlog
``streaming``                              history, catch-up, switch, live; without a live source: history, finish
========================================  ==========================================================================

A trigger that ends by itself (``availableNow``, ``once``) drops the phase ``live``: the next run goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...errors import PlanError
from ...runtime.protocols.checkpoint_scheduler import COVERED_MS
from ...runtime.spec import Phase, Settings, SortEngine
from ..options.values import format_duration_ms
from .job_facts import JobFacts, is_cut, runs_sorted
from .phase_details import (
    engine_details,
    final_watermark_details,
    join_details,
    limits_text,
    processing_timer_details,
    row_watermark,
    sort_details,
    timer_details,
)
from .real_time.live_phase import REASON, real_time_details
from .sort_engine import choose_sorter

_LATE_AFTER_SWITCH = "rows behind the watermark are dropped and counted"
_LATE_KEPT = "rows behind the watermark are counted and kept apart (pipeline.late-data.path)"
_BACK_TO_CHECKPOINT = "restart from the last complete checkpoint"
_ROCKSDB = "RocksDB"
_NO_WATERMARK = "none while rows of a key are processed"


def plan_phases(settings: Settings, job: JobFacts) -> tuple[Phase, ...]:
    """The phases of a fresh run, in order."""
    if not (job.has_history or job.has_live):
        raise PlanError("the job has neither a history nor a live source; give read() at least one of them")
    phases = PhaseRules(settings, job).phases()
    return tuple(map(_without_state, phases)) if job.is_stateless else phases


def _without_state(phase: Phase) -> Phase:
    """The phase of a job that keeps nothing: less is to be said of it."""
    details = {name: text for name, text in phase.details.items() if name in ("checkpoints", "failure")}
    if phase.kind in ("backlog", "history", "catch-up", "live"):
        many = phase.mode == "streaming" and phase.kind != "history"
        details["scheduling"] = "a Spark job for each micro-batch" if many else "one Spark job over all of it, unsorted"
    if phase.kind in ("backlog", "history"):
        return phase.model_copy(update={"details": details, "reason": "there is no state: rows are written as a batch"})
    return phase.model_copy(update={"details": details})


@dataclass(frozen=True)
class PhaseRules:
    """The phases of one job.

    Args:
        settings: its settings.
        job: what is known of it.
    """

    settings: Settings
    job: JobFacts

    def phases(self) -> tuple[Phase, ...]:
        """Those of a fresh run, in order."""
        if self.settings.runtime_mode == "batch":
            return self._batch_backlog(), self._batch_finish()
        if runs_sorted(self.settings) and not is_cut(self.settings, self.job):
            return self._mixed()
        return self._stream()

    @property
    def _sorter(self) -> SortEngine:
        """What sorts the rows of a shard."""
        return choose_sorter(self.settings, self.job.bytes_per_shard).engine

    def _row_watermark(self, before_end: str = _NO_WATERMARK) -> str:
        return row_watermark(self.settings, self.job, before_end)

    def _sources(self) -> tuple[str, ...]:
        return tuple(name for name, there in (("history", self.job.has_history), ("live", self.job.has_live)) if there)

    # -- batch ---------------------------------------------------------------------------------------------------------

    def _batch_backlog(self) -> Phase:
        reason = "execution.runtime-mode = batch: all input is read once, sorted by key, without state to keep"
        if self.job.has_live:
            reason += "; of the live source, what it holds when the job starts"
        return Phase(
            kind="backlog",
            reason=reason,
            sources=self._sources(),
            style="sorted",
            sorter=self._sorter,
            details={
                "scheduling": "all at once in one pass, sorted by key; stage by stage, as a Spark batch",
                "watermark": f"{self._row_watermark()}; MAX_WATERMARK at the end of each key",
                "checkpoints": "none",
                "failure": "the failed task runs again from the start of its input",
                "keyed state": "one key at a time in memory, forgotten at its end",
                **join_details(self.job, ""),
                **engine_details(self.job),
                **sort_details(self.settings, self.job),
                **final_watermark_details(self.job),
                **timer_details(self.settings, self.job, sorted_pass=True),
                **processing_timer_details(self.job, "at the end of their key, after the event-time timers"),
            },
        )

    def _batch_finish(self) -> Phase:
        return Phase(
            kind="finish",
            reason="end of input: the output is committed at once and the query ends",
            style="sorted",
            sorter=self._sorter,
            details={
                "watermark": "MAX_WATERMARK has already come at the end of each key",
                "checkpoints": "none of state; the commit of the output is recorded",
                "failure": "nothing is visible before the commit",
            },
        )

    # -- mixed, interval-during-backlog = 0 ----------------------------------------------------------------------------

    def _mixed(self) -> tuple[Phase, ...]:
        backlog = self._sorted_backlog()
        if not self.job.has_live:
            return (backlog, self._finish("sorted"))
        switch = Phase(
            kind="switch",
            reason=(
                "the history and the data waiting at the live source are processed; from here on the job is a stream"
                if self.job.has_history
                else "the data waiting at the live source is processed; from here on the job is a stream"
            ),
            style="sorted",
            sorter=self._sorter,
            details={
                "watermark": self._switch_watermark(),
                "checkpoints": "one immediately; the output of the backlog becomes visible with it",
                "failure": "before that checkpoint is complete: from the start of the backlog; after it: back to it",
                "keyed state": f"{_ROCKSDB} loads the sorted files as they are, without rewriting them",
            },
        )
        if self.job.ends_by_itself:
            return (backlog, switch)
        return (backlog, switch, self._live())

    def _backlog_failure(self) -> str:
        again = "a failed task: again from the start of its input; a restarted driver: from the start of the backlog"
        if self.settings.reuse_finished_shards and not self.job.is_stateless:
            again += ", without the shards that had finished if input and code are unchanged"
        return f"{again}; nothing of it is visible before the {'switch' if self.job.has_live else 'final checkpoint'}"

    def _sorted_backlog(self) -> Phase:
        details = {
            "scheduling": f"all at once in one pass, sorted by key{limits_text(self.settings, self.job)}",
            "watermark": self._backlog_watermark(),
            "checkpoints": "none while isBacklog (execution.interval-during-backlog = 0)",
            "failure": self._backlog_failure(),
            "keyed state": f"one key at a time in memory; written to {_ROCKSDB} files when the next key comes",
            **join_details(
                self.job,
                "; what can still meet a partner becomes state, which later passes join their sorted rows with",
            ),
            **engine_details(self.job),
            **sort_details(self.settings, self.job),
            **final_watermark_details(self.job),
            **timer_details(self.settings, self.job, sorted_pass=True),
            **processing_timer_details(self.job, "in real time, after the switch"),
        }
        if self.job.uses_event_time and self.job.has_live and self.settings.final_watermark == "max":
            details["warning"] = (
                "windows and event-time timers that straddle the switch fire at the switch with the backlog's part, and"
                " a window fires again later with the rest (execution.backlog.final-watermark = observed carries them"
                " over)"
            )
        return Phase(
            kind="backlog",
            reason=(
                "execution.runtime-mode = mixed and execution.interval-during-backlog = 0: no checkpoint is taken"
                " before the switch, so the backlog is sorted by key and processed at batch speed"
            ),
            sources=self._sources(),
            style="sorted",
            sorter=self._sorter,
            details=details,
        )

    def _backlog_watermark(self) -> str:
        if not self.job.has_live:
            return f"{self._row_watermark()}; MAX_WATERMARK for each key after its records{self._despite()}"
        shown = self._row_watermark("none while isBacklog")
        if not self.job.carries:
            return (
                f"{shown}; MAX_WATERMARK, the end of event time, for one key at a time after its"
                " records, which fires all of its windows and event-time timers"
            )
        return (
            f"{shown}; the greatest watermark of the backlog for one key at a time after its records, which"
            " fires what it has passed; the rest is carried into the stream"
        )

    def _switch_watermark(self) -> str:
        if self.job.carries:
            done = (
                "the greatest watermark that the backlog reached; timers of keys without records in the backlog fire"
                " too"
            )
        else:
            done = "MAX_WATERMARK has come for every key"
        return f"{done}; from here on as withWatermark says"

    def _despite(self) -> str:
        if self.settings.final_watermark == "observed":
            return (
                " (execution.backlog.final-watermark = observed does not apply: without a live source the end of the"
                " backlog is the end of all input)"
            )
        return ""

    # -- streaming, and mixed with interval-during-backlog > 0 ---------------------------------------------------------

    def _stream(self) -> tuple[Phase, ...]:
        if self.settings.runtime_mode == "streaming" or runs_sorted(self.settings):
            why = "execution.runtime-mode = streaming"
            if runs_sorted(self.settings):
                why = (
                    "there is no state, and the live source limits its micro-batches (execution.backlog.limits ="
                    " source)"
                )
            # A history and what has waited are the backlog, which has nobody who waits for its rows one by one.
            interval_ms = self.settings.checkpoint_interval_ms or COVERED_MS
            interval_option = "execution.checkpointing.interval"
        else:
            interval_ms = self.settings.interval_during_backlog_ms
            interval_option = "execution.interval-during-backlog"
            why = f"{interval_option} = {format_duration_ms(interval_ms)} is not 0: the job runs as a stream throughout"
        details = {
            "scheduling": "micro-batches",
            "watermark": "as withWatermark says; execution.backlog.final-watermark does not apply to a stream",
            "checkpoints": f"every {format_duration_ms(interval_ms)} ({interval_option}), independent of micro-batches",
            "failure": _BACK_TO_CHECKPOINT,
            "keyed state": _ROCKSDB,
            **timer_details(self.settings, self.job, sorted_pass=False),
            **processing_timer_details(self.job, "in real time"),
        }
        phases: list[Phase] = []
        if self.job.has_history:
            rows = self.settings.history_rows_per_epoch
            phases.append(
                Phase(
                    kind="history",
                    reason=f"{why}; the history is cut into epochs of {rows} rows (execution.history.rows-per-epoch)",
                    sources=("history",),
                    checkpoint_interval_ms=interval_ms,
                    details=details,
                )
            )
        if not self.job.has_live:
            return (*phases, self._finish("random"))
        phases.append(
            Phase(
                kind="catch-up",
                reason=f"{why}; the data waiting at the live source at the start counts as backlog",
                sources=("live",),
                checkpoint_interval_ms=interval_ms,
                details=details,
            )
        )
        phases.append(
            Phase(
                kind="switch",
                reason="the data that was there at the start is processed; from here on input counts as live",
                details={
                    "watermark": "follows withWatermark, as before the switch",
                    "checkpoints": "one immediately, since the run ends here"
                    if self.job.ends_by_itself
                    else f"from here on {self._live_checkpoints()}",
                    "failure": _BACK_TO_CHECKPOINT,
                    "keyed state": f"{_ROCKSDB}, as before",
                },
            )
        )
        if not self.job.ends_by_itself:
            phases.append(self._live())
        return tuple(phases)

    # -- what several modes share --------------------------------------------------------------------------------------

    def _live(self) -> Phase:
        details = {
            "scheduling": "micro-batches; between them a clock fires the timers that are due",
            "watermark": self._live_watermark(),
            "checkpoints": self._live_checkpoints(),
            "failure": _BACK_TO_CHECKPOINT,
            "keyed state": _ROCKSDB,
            **timer_details(self.settings, self.job, sorted_pass=False),
            **processing_timer_details(self.job, "in real time, also when no data comes"),
        }
        threshold_ms = self.settings.watermark_lag_threshold_ms
        if threshold_ms is not None:
            lag = (
                f"while the watermark lags by more than {format_duration_ms(threshold_ms)} and something waits at the"
                " source, isBacklog is true"
            )
            details["backlog"] = (
                f"{lag}: what waits is sorted and merged with the state in one pass (observed watermark)"
                if runs_sorted(self.settings)
                else f"{lag}, which changes only the checkpoint interval"
            )
        reason = "the live source has no end: micro-batches until the query is stopped"
        if self.job.real_time_ms is not None:
            reason = REASON
            watermark = details["watermark"] if self.job.has_watermark else None
            details |= real_time_details(self.job.real_time_ms, self.job.real_time_slots or "", watermark)
        return Phase(
            kind="live",
            reason=reason,
            sources=("live",),
            sorter=choose_sorter(self.settings).engine,
            checkpoint_interval_ms=self.settings.checkpoint_interval_ms or "auto",
            real_time_ms=self.job.real_time_ms,
            details=details,
        )

    def _live_checkpoints(self) -> str:
        if self.settings.checkpoint_interval_ms is None:
            return (
                "after each micro-batch that changes state or output, one at a time, beside the next micro-batches"
                " (execution.checkpointing.interval = auto)"
            )
        interval = format_duration_ms(self.settings.checkpoint_interval_ms)
        return f"every {interval} (execution.checkpointing.interval), independent of micro-batches"

    def _live_watermark(self) -> str:
        if not self.job.has_watermark:
            return "none declared"
        step_ms = self.settings.watermark_interval_ms
        steps = f", at most every {format_duration_ms(step_ms)} (pipeline.auto-watermark-interval)" if step_ms else ""
        late = _LATE_AFTER_SWITCH if self.settings.late_data_path is None else _LATE_KEPT
        return f"as withWatermark says{steps}{f'; {late}' if self.job.uses_event_time else ''}"

    def _finish(self, style: Literal["sorted", "random"]) -> Phase:
        """The end of a job without a live source that keeps its state."""
        return Phase(
            kind="finish",
            reason="there is no live source: the end of the history is the end of input, and the query ends",
            style=style,
            sorter=choose_sorter(self.settings).engine,
            details={
                "watermark": "MAX_WATERMARK: every event-time timer and every open window fires"
                + (self._despite() if style == "sorted" else ""),
                "checkpoints": "a final one at once",
                "failure": _BACK_TO_CHECKPOINT
                if style == "random"
                else "before the final checkpoint is complete: from the start of the backlog",
                "keyed state": f"{_ROCKSDB}, kept in the final checkpoint",
            },
        )
