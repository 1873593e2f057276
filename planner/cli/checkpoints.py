"""``mixedmode checkpoints LOCATION``: which checkpoints there are, and whether they are whole."""

from __future__ import annotations

import time
from typing import Any

from ...runtime.checkpoints.metadata import kind_label
from ...runtime.metrics.units import size
from ...runtime.state_reader import CheckpointInfo, StateReader
from .console import age, print_table


def checkpoints_of(reader: StateReader, verify: bool) -> list[dict[str, Any]]:
    """All checkpoints, oldest first, as JSON-able facts."""
    now_s = time.time()
    return [_facts(info, now_s) for info in reader.checkpoints(verify=verify)]


def _facts(info: CheckpointInfo, now_s: float) -> dict[str, Any]:
    return {
        "id": info.id,
        "trigger": info.trigger,
        "kind": info.kind,
        "drained": info.drained,
        "time": None if info.time is None else info.time.isoformat(timespec="seconds"),
        "ageSeconds": None if info.timestamp_ms is None else round(now_s - info.timestamp_ms / 1000, 1),
        "epoch": info.epoch,
        "sizeBytes": info.size_bytes,
        "files": info.files,
        "committed": info.committed,
        "whole": info.complete,
        "damage": info.damage,
    }


def show_checkpoints(found: list[dict[str, Any]]) -> None:
    """The same as a table."""
    print_table(
        ["id", "kind", "trigger", "time", "age", "epoch", "size", "files", "output", "state"],
        [
            [
                one["id"],
                None if one["kind"] is None else kind_label(one["kind"], one["drained"]),
                one["trigger"],
                one["time"],
                None if one["ageSeconds"] is None else age(one["ageSeconds"]),
                one["epoch"],
                size(one["sizeBytes"]),
                one["files"],
                "visible" if one["committed"] else "pending",
                "whole" if one["whole"] else f"DAMAGED: {one['damage']}",
            ]
            for one in found
        ],
    )
