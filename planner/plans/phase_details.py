"""Words what several phases of a plan have to say: joins, limits, sorting, timers, final watermarks."""

from __future__ import annotations

from ...runtime.spec import Settings
from .final_watermark import NAME as FINAL_WATERMARK
from .final_watermark import FinalWatermark
from .job_facts import JobFacts
from .sort_engine import choose_sorter


def join_details(job: JobFacts, then: str) -> dict[str, str]:
    """How rows meet in a sorted pass; ``then``: what becomes of them."""
    if not job.has_joins:
        return {}
    return {"joins": f"a join without state yet is Spark's own batch join, of all rows of both sides{then}"}


def limits_text(settings: Settings, job: JobFacts) -> str:
    """What rate limits of the live source are for."""
    if not job.has_live:
        return ""
    if settings.backlog_limits != "source":
        return "; rate limits of the live source are for the stream (execution.backlog.limits = lifted)"
    return "; a pass per batch, if the live source limits its batches (execution.backlog.limits = source)"


def row_watermark(settings: Settings, job: JobFacts, otherwise: str) -> str:
    """What a sorted pass shows while rows are handled."""
    in_order = job.has_timers and settings.timers == "in-order"
    return "t - delay for rows of event time t" if in_order else otherwise


def final_watermark_details(job: JobFacts) -> dict[str, str]:
    """Value and reason for each stage; stages that have the same share a line."""
    uids: dict[FinalWatermark, list[str]] = {}
    for uid, final in job.final_watermarks.items():
        uids.setdefault(final, []).append(f"[{uid}]")
    texts = [
        f"{', '.join(names) + ' ' if len(job.final_watermarks) > 1 else ''}{final.value} ({FINAL_WATERMARK}):"
        f" {final.reason}"
        for final, names in uids.items()
    ]
    return {"final watermark": "; ".join(texts)} if texts else {}


def engine_details(job: JobFacts) -> dict[str, str]:
    """Who reads and aggregates the history."""
    return {} if job.backlog_engine is None else {"engine": job.backlog_engine}


def sort_details(settings: Settings, job: JobFacts) -> dict[str, str]:
    """Who sorts, and why."""
    choice = choose_sorter(settings, job.bytes_per_shard)
    return {"sort": f"by key, then event time; engine {choice.engine} ({choice.reason})"}


def timer_details(settings: Settings, job: JobFacts, *, sorted_pass: bool) -> dict[str, str]:
    """How rows and event-time timers of a key are ordered, and why."""
    if not job.has_timers:
        return {}
    if settings.timers == "in-order":
        order = (
            "in-order: a key's rows come in the order of event time, and what is due by then (event time - delay) fires"
            " before them"
        )
        if sorted_pass and job.has_live and settings.backlog_limits == "source":
            order += "; if the live source limits its batches, all of it fires at the end of the last one"
    else:
        order = "after-rows: a key's event-time timers fire after all of its rows" + (
            "" if sorted_pass else " in the epoch, as Spark's"
        )
    return {"timers": f"{order} (pipeline.timers: {job.why_timers})"}


def processing_timer_details(job: JobFacts, when: str) -> dict[str, str]:
    """When timers of processing time fire."""
    return {"processing-time timers": f"fire {when}"} if job.uses_processing_time else {}
