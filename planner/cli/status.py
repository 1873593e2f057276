"""``mixedmode status LOCATION``: how a job is, and an exit code for health checks."""

from __future__ import annotations

from typing import Any

from ...runtime.metrics.event_descriptions import in_ms
from ...runtime.metrics.events.event_parts import Latencies
from ...runtime.metrics.status import JobStatus, Limits
from ...runtime.metrics.units import percent, size, time_to_go
from .console import age, moment_text, option_duration_ms, print_facts, print_table

#: Exit codes besides those of all commands.
NOT_RUNNING, STALLED = 3, 4


def limits_of(checkpoint_age: str | None, lag: str | None, silence: str | None, waiting_messages: int | None) -> Limits:
    """The limits of the command line.

    Args:
        checkpoint_age: of --max-checkpoint-age.
        lag: of --max-lag.
        silence: of --max-silence.
        waiting_messages: of --max-waiting-messages.
    """
    return Limits(
        option_duration_ms("--max-checkpoint-age", checkpoint_age),
        option_duration_ms("--max-lag", lag),
        option_duration_ms("--max-silence", silence),
        waiting_messages,
    )


def exit_code(status: JobStatus, problems: list[str]) -> int:
    """0: it runs and is healthy."""
    if not status.is_running:
        return NOT_RUNNING
    return STALLED if problems else 0


def facts_of(status: JobStatus, problems: list[str]) -> dict[str, Any]:
    """The JSON document.  Its names are a contract: later versions add some, and neither rename nor remove any."""
    run, checkpoint, standing = status.run, status.checkpoint, status.standing
    began = None if run is None else run.began
    holder = standing.holder
    return {
        "location": status.location,
        "time": moment_text(status.at_ms),
        "running": status.is_running,
        "paused": status.is_paused,
        "healthy": status.is_running and not problems,
        "problems": problems,
        "query": {"id": None if run is None else run.query_id, "name": None if run is None else run.name},
        "run": {
            "id": holder.run
            if holder is not None and not status.is_of_the_log
            else None
            if run is None
            else run.run_id,
            "starts": standing.generation,
            "pid": holder.pid if holder is not None else None if began is None else began.pid,
            "host": holder.place.partition(".")[0] if holder is not None else None if began is None else began.host,
            "began": None if run is None else moment_text(run.began_ms),
            "lastEvent": None if run is None else moment_text(run.seen_ms),
            "heartbeatAgeSeconds": _seconds(standing.silent_ms),
            "outcome": status.outcome,
            "error": None if run is None or run.ended is None else run.ended.error,
            "savepoint": None if run is None or run.ended is None else run.ended.savepoint,
        },
        "phase": status.phase,
        "eventLog": status.standing.has_event_log,
        "backlog": _backlog(status),
        "realTime": _real_time(status),
        "epoch": _epoch(status),
        "checkpoint": None
        if checkpoint is None
        else {
            "id": checkpoint.id,
            "trigger": checkpoint.trigger,
            "time": moment_text(checkpoint.at_ms),
            "ageSeconds": _seconds(status.at_ms - checkpoint.at_ms),
            "durationMs": checkpoint.duration_ms,
            "stateBytes": checkpoint.state_bytes,
        },
        "checkpointDamage": status.damage,
        "sources": [_source(one) for one in status.sources()],
    }


def _backlog(status: JobStatus) -> dict[str, Any] | None:
    """How far the sorted pass is, while there is one."""
    run = status.run
    if run is None or not run.backlog or status.phase != "backlog" or not status.is_of_the_log:
        return None
    last = run.backlog[-1]
    return {
        "stage": last.stage,
        "fraction": last.fraction,
        "rows": last.rows,
        "rowsRead": last.rows_read,
        "totalRows": last.total_rows,
        "rowsPerSecond": last.rows_per_second,
        "etaSeconds": last.eta_s,
        "etaRangeSeconds": None if last.eta_low_s is None else [last.eta_low_s, last.eta_high_s],
        "shardsDone": last.shards_done,
        "shards": last.shards,
        "spilledBytes": last.spilled_bytes,
    }


def _real_time(status: JobStatus) -> dict[str, Any] | None:
    """How far the epoch is that runs in Real-Time Mode."""
    last = None if status.run is None or not status.is_running or not status.is_of_the_log else status.run.open_epoch
    if last is None:
        return None
    return {**last.by_name(), "ageSeconds": _seconds(status.at_ms - last.at_ms)}


def _epoch(status: JobStatus) -> dict[str, Any] | None:
    last = status.epoch
    if last is None:
        return None
    return {
        "id": last.epoch,
        "phase": last.phase,
        "time": moment_text(last.at_ms),
        "ageSeconds": _seconds(status.at_ms - last.at_ms),
        "rows": last.input_rows,
        "rowsPerSecond": last.processed_rows_per_second,
        "durationMs": last.duration_ms,
        "watermark": None if last.watermark_ms is None else moment_text(last.watermark_ms),
        "watermarkLagSeconds": None if last.watermark_ms is None else _seconds(status.at_ms - last.watermark_ms),
        "stateBytes": last.state_bytes,
        "latencyMs": None if last.latencies is None else last.latencies.by_name(),
    }


def _source(one: dict[str, Any]) -> dict[str, Any]:
    watermark_ms = one["watermarkMs"]
    return {
        "name": one["name"],
        "isBacklog": one["isBacklog"],
        "finished": one["finished"],
        "isIdle": one["isIdle"],
        "watermark": None if watermark_ms is None else moment_text(watermark_ms),
        "lagSeconds": _seconds(one["watermarkLagMs"]),
        "waitingMessages": one["waitingMessages"],
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else round(ms / 1000, 1)


def show_status(found: dict[str, Any]) -> None:
    """The same for people."""
    run, backlog, epoch, checkpoint = found["run"], found["backlog"], found["epoch"], found["checkpoint"]
    name, where = found["query"]["name"], f"process {run['pid']} on {run['host']}"
    facts: list[tuple[str, Any]] = [] if name is None else [("query", name)]
    facts.append(("job", _state(found)))
    facts += [("problem", problem) for problem in found["problems"]]
    if run["id"] is not None:
        starts = f", start {run['starts']}" if run["starts"] else ""
        facts.append(("run", f"{run['id']}{starts}, {where}" + (f", began {run['began']}" if run["began"] else "")))
    if run["error"] is not None:
        facts.append(("error", run["error"]))
    if found["phase"] is not None:
        facts.append(("phase", found["phase"]))
    elif found["running"] and not found["eventLog"]:
        facts.append(("phase", "unknown: the job writes no event log (execution.event-log.enabled = false)"))
    if backlog is not None:
        part = "" if backlog["fraction"] is None else f"{percent(backlog['fraction'])}, "
        left = time_to_go(backlog["etaSeconds"], *(backlog["etaRangeSeconds"] or (None, None)))
        eta = "" if left is None else f", {left} to go"
        facts.append(("backlog", f"{part}{backlog['rows']:,} rows, {backlog['rowsPerSecond']:,.0f} rows/s{eta}"))
    if found["realTime"] is not None:
        facts.append(("real time", _real_time_text(found["realTime"])))
    if epoch is not None:
        facts.append(("epoch", f"{epoch['id']}, {age(epoch['ageSeconds'])} ago, {epoch['rows']:,} rows"))
    if checkpoint is not None:
        held = "" if checkpoint["stateBytes"] is None else f", {size(checkpoint['stateBytes'])} of state"
        facts.append(("checkpoint", f"{checkpoint['id']}, {age(checkpoint['ageSeconds'])} ago{held}"))
    if found["checkpointDamage"] is not None:
        facts.append(("DAMAGED", found["checkpointDamage"]))
    print_facts(facts)
    rows = [
        [
            one["name"],
            "yes" if one["isBacklog"] else "no",
            "finished" if one["finished"] else "idle" if one["isIdle"] else "",
            one["watermark"],
            None if one["lagSeconds"] is None else age(one["lagSeconds"]),
            one["waitingMessages"],
        ]
        for one in found["sources"]
    ]
    if rows:
        print_table(["source", "in backlog", "", "watermark", "lag", "waiting messages"], rows, "Sources")


def _real_time_text(real_time: dict[str, Any]) -> str:
    speed = f"{real_time['rows']:,} rows, {real_time['rowsPerSecond']:,.0f} rows/s"
    latencies = real_time["latencyMs"]
    took = "" if latencies is None else ", " + in_ms(Latencies(**{f"{name}_ms": ms for name, ms in latencies.items()}))
    return f"epoch {real_time['epoch']} runs: {speed}{took}"


def _state(found: dict[str, Any]) -> str:
    if found["running"]:
        how = "paused" if found["paused"] else "running"
        return how if found["healthy"] else "STALLED"
    ended = {
        None: "no run has written here yet",
        "finished": "the last run has finished: all input is processed",
        "stopped": "the last run was stopped",
        "failed": "the last run has FAILED",
        "killed": "the last run was KILLED or cannot be reached: it has not written how it ended",
    }
    return f"not running; {ended[found['run']['outcome']]}"
