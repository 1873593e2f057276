"""Finds histories that do not tell in which order a stream would have brought their rows."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.connectors.sources.source_lanes import Lane
from ...runtime.spark_io.file_rows import has_file_rows
from ...runtime.spec import StageSpec
from .graph import StageGraph


def unordered_histories(graph: StageGraph, specs: Sequence[StageSpec], lanes: Sequence[Lane]) -> tuple[str, ...]:
    """The histories whose rows a stage needs in the order of their arrival, and of which nobody knows it."""
    found: dict[str, None] = {}
    for read in (read for spec in specs if spec.operator.keeps_arrival for read in spec.reads):
        history = lanes[read.lane].history
        if history is None:
            continue
        behind = history if read.template is None or read.template.isStreaming else read.template
        if not (has_file_rows(history) and has_file_rows(behind)):
            found.setdefault(graph.lanes.history_name(read.lane))
    return tuple(found)
