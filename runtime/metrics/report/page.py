"""Renders the report: fills its template from the runs of a job."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..run_records import Happening, RunRecord
from ..status import JobStatus
from ..units import clock, count, digits, iso, lasting, size, span, whole
from .charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, chart
from .graph import graph, nodes_of
from .series import all_series
from .timeline import axis, shades, time_scale, timeline

#: Rows of the tables of runs, events and shards.
_RUNS, _EVENTS, _SHARDS = 100, 400, 12
_BAR = 140
_SHAPES = {
    "restart": "restored from a checkpoint",
    "failure": "failure",
    "savepoint": "savepoint",
    "loss": "data lost",
    "end": "stopped or finished",
}


def report_page(status: JobStatus, runs: Sequence[RunRecord]) -> str:
    """The page of a job as HTML.

    Args:
        status: how it is now.
        runs: what its history tells, oldest first.
    """
    environment = Environment(
        loader=PackageLoader("mixedmode.runtime.metrics.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["span"] = span
    style = environment.loader.get_source(environment, "page.css")[0] if environment.loader is not None else ""
    return environment.get_template("page.html.jinja").render(_context(status, runs), style=Markup(style))


def without_secrets(location: str) -> str:
    """A location without what a URI may say of keys."""
    scheme, there, rest = location.partition("://")
    if not there:
        return location
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _context(status: JobStatus, runs: Sequence[RunRecord]) -> dict[str, Any]:
    runs = [_with_kill(run, status) for run in runs]
    time = time_scale(runs)
    newest = runs[-1]
    began = next((run.began for run in reversed(runs) if run.began is not None), None)
    epochs = newest.epochs[-1] if newest.epochs else None
    shards = list(_slowest(runs))
    listed = [(run, one) for run in reversed(runs) for one in reversed(run.happenings)]
    return {
        "version": importlib.metadata.version("mixedmode"),
        "title": newest.name or "unnamed query",
        "location": without_secrets(status.location),
        "query_id": newest.query_id,
        "verdict": _verdict(status, newest),
        "facts": [fact for fact in _facts(status, runs) if fact["value"] is not None],
        "geometry": {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "height": HEIGHT},
        "axis": axis(runs, time),
        "timeline": timeline(runs, time),
        "shape_names": _SHAPES,
        "shades": shades(runs, time),
        "charts": [chart(series, time) for series in all_series(runs)],
        "graph": None if began is None else graph(nodes_of(began, epochs)),
        "runs": [_run_row(run, status) for run in list(reversed(runs))[:_RUNS]],
        "runs_caption": _of(min(len(runs), _RUNS), len(runs), "run", "newest first"),
        "shards": _shard_rows(shards[:_SHARDS]),
        "shards_caption": "The shards that took longest in one epoch, each with its slowest one",
        "events": [_event_row(run, one) for run, one in listed[:_EVENTS]],
        "events_caption": _of(min(len(listed), _EVENTS), len(listed), "event", "newest first"),
        "made_at": clock(status.at_ms),
        "gaps": [],
    }


def _of(shown: int, there: int, what: str, order: str) -> str:
    plural = what if there == 1 else f"{what}s"
    return f"{there} {plural}, {order}" if shown == there else f"The newest {shown} of {there} {plural}"


def _verdict(status: JobStatus, newest: RunRecord) -> dict[str, str]:
    """What has become of the job, in a word and in a sentence."""
    for_how_long = lasting(status.at_ms - newest.began_ms)
    lasted = lasting(newest.until_ms - newest.began_ms)
    if status.is_running:
        sentence = f"In phase {status.phase}, {for_how_long} after its start at {clock(newest.began_ms)} UTC."
        return {"word": "running", "tone": "good", "sentence": sentence, "error": ""}
    ended = newest.ended
    if ended is None:
        sentence = (
            f"The last run was last heard of at {clock(newest.seen_ms)} UTC, in phase {newest.phase}, after {lasted}:"
            " its driver was killed, or cannot be reached."
        )
        return {"word": "killed", "tone": "bad", "sentence": sentence, "error": ""}
    where = f"in phase {newest.phase}, after {lasted}"
    if ended.how == "failed":
        sentence = f"The last run failed at {clock(ended.at_ms)} UTC {where}."
        error = f"{ended.error_class or 'error'}: {ended.error or 'no reason was given'}"
        return {"word": "failed", "tone": "bad", "sentence": sentence, "error": error}
    if ended.how == "finished":
        sentence = f"The last run came to the end of its input at {clock(ended.at_ms)} UTC, after {lasted}."
        return {"word": "finished", "tone": "good", "sentence": sentence, "error": ""}
    with_what = f" with savepoint {ended.savepoint}" if ended.savepoint else ""
    sentence = f"The last run was stopped{with_what} at {clock(ended.at_ms)} UTC {where}."
    return {"word": "stopped", "tone": "warn", "sentence": sentence, "error": ""}


def _facts(status: JobStatus, runs: Sequence[RunRecord]) -> Iterator[dict[str, str | None]]:
    epochs = [epoch for run in runs for epoch in run.epochs]
    last = epochs[-1] if epochs else None
    rows = sum(epoch.input_rows for epoch in epochs)
    passes = [epoch for epoch in epochs if epoch.mode == "backlog"]
    yield _fact("rows processed", count(rows), f"in {whole(sum(epoch.epochs for epoch in epochs))} epochs")
    if passes:
        took_s = sum(epoch.duration_ms for epoch in passes) / 1000
        done = sum(epoch.input_rows for epoch in passes)
        yield _fact("backlog", f"{count(done / max(took_s, 1e-3))}/s", f"{count(done)} rows in {span(took_s * 1000)}")
    live = [epoch for epoch in epochs if epoch.mode == "streaming"]
    if live:
        middle = sorted(epoch.duration_ms / max(epoch.epochs, 1) for epoch in live)[len(live) // 2]
        yield _fact("micro-batch", span(middle), "median")
    latencies = [epoch.latencies for epoch in live if epoch.latencies is not None]
    if latencies:
        yield _fact("latency", f"{latencies[-1].p50_ms:,} ms", f"p99 {latencies[-1].p99_ms:,} ms, of the last epoch")
    if last is not None and last.watermark_lag_ms is not None:
        yield _fact("watermark lag", span(last.watermark_lag_ms), "after the last epoch")
    if status.checkpoint is not None:
        ago = lasting(status.at_ms - status.checkpoint.at_ms)
        yield _fact("last checkpoint", f"{status.checkpoint.id}", f"{ago} ago")
    if last is not None:
        yield _fact("state", size(last.state_bytes), f"{count(last.state_entries)} entries")
        late = sum(epoch.late_rows for epoch in epochs)
        yield _fact("late rows", count(late), f"{digits(100 * late / rows)} % of all" if rows and late else "")
    failed = sum(1 for run in runs if _ended(run, status) in ("failed", "killed"))
    yield _fact("runs", whole(len(runs)), f"{failed} ended badly" if failed else "none ended badly")


def _fact(name: str, value: str, more: str) -> dict[str, str | None]:
    return {"name": name, "value": value, "more": more}


def _ended(run: RunRecord, status: JobStatus) -> str:
    if run.ended is not None:
        return run.ended.how
    is_last = status.run is not None and run.run_id == status.run.run_id
    return "runs" if is_last and status.is_running else "killed"


def _with_kill(run: RunRecord, status: JobStatus) -> RunRecord:
    """A run that was killed could not say so."""
    if _ended(run, status) != "killed":
        return run
    last = Happening(run.until_ms, "killed", "the last that was heard of this run: its driver ended without a word")
    return replace(run, happenings=[*run.happenings, last])


def _run_row(run: RunRecord, status: JobStatus) -> dict[str, str]:
    ended = _ended(run, status)
    words = {
        "runs": f"runs, in phase {run.phase}",
        "killed": f"killed, or not reachable any more, in phase {run.phase}",
    }
    return {
        "id": run.run_id[:8],
        "began": clock(run.began_ms),
        "lasted": span(run.until_ms - run.began_ms),
        "rows": whole(sum(epoch.input_rows for epoch in run.epochs)),
        "epochs": whole(sum(epoch.epochs for epoch in run.epochs)),
        "checkpoints": whole(sum(one.checkpoints for one in run.checkpoints)),
        "ended": words[ended] if ended in words else f"{ended}: {_short(run.happenings[-1].detail)}",
    }


def _short(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= 300 else f"{line[:299]}…"


def _slowest(runs: Sequence[RunRecord]) -> Iterator[dict[str, Any]]:
    """Of each shard the slowest epoch, slowest first."""
    worst: dict[tuple[str, int], dict[str, Any]] = {}
    for epoch in (epoch for run in runs for epoch in run.epochs):
        for stage in epoch.stages:
            for shard in stage.slowest:
                key = (stage.uid, shard.shard)
                if key not in worst or shard.seconds > worst[key]["seconds"]:
                    told = {"seconds": shard.seconds, "rows": shard.rows, "epoch": epoch}
                    worst[key] = {"stage": stage.uid, "shard": shard.shard, **told}
    yield from sorted(worst.values(), key=lambda one: -one["seconds"])


def _shard_rows(shards: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    most = max((one["seconds"] for one in shards), default=0.0) or 1.0
    return [
        {
            "stage": one["stage"],
            "shard": one["shard"],
            "duration": span(one["seconds"] * 1000),
            "width": max(2, round(_BAR * one["seconds"] / most)),
            "time": clock(one["epoch"].at_ms),
            "epoch": f"{one['epoch'].epoch} ({one['epoch'].phase})",
            "rows": whole(one["rows"]),
        }
        for one in shards
    ]


def _event_row(run: RunRecord, one: Any) -> dict[str, str]:
    return {
        "time": clock(one.at_ms),
        "iso": iso(one.at_ms),
        "run": run.run_id[:8],
        "kind": one.kind,
        "detail": one.detail,
    }
