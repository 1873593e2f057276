"""``mixedmode inspect PATH``: what one checkpoint or savepoint holds.

Everything but keys is read from metadata alone; counting or looking up keys starts a small local Spark session.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from ...runtime.checkpoints.metadata import CheckpointMetadata, OperatorState, StateLayout, kind_label
from ...runtime.checkpoints.store import CheckpointStore
from ...runtime.metrics.units import size
from ...runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from ...runtime.state_reader import StateReader
from ...state.keys.registry import StateRegistry
from ..inputs.environment import check_java
from .console import moment_text, print_facts, print_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: What a restore means to event time.
_DRAINED = (
    "all event-time timers and open windows have fired, as at the end of input. What begins from it goes on behind"
    " that: further rows of a window that was open then open it anew, and it fires again with them"
)


def described(store: CheckpointStore, metadata: CheckpointMetadata) -> dict[str, Any]:
    """A checkpoint of a store as JSON-able facts."""
    spark, wanted = metadata.spark, metadata.savepoint
    return {
        "checkpoint": metadata.checkpoint_id,
        "kind": store.kind_of(metadata),
        "drained": metadata.is_drained,
        "trigger": metadata.trigger,
        "time": moment_text(metadata.timestamp_ms),
        "epoch": metadata.epoch,
        "watermark": _watermark(metadata.watermark_ms),
        "rowsLate": metadata.rows_late_total,
        "outputVisible": store.is_committed(metadata.checkpoint_id),
        # What the job was stopped with.
        "savepoint": None
        if wanted is None
        else {"path": wanted.path, "madeAt": store.savepoint_made(metadata.checkpoint_id)},
        "sources": [
            {
                "name": name,
                "isBacklog": source.is_backlog,
                "finished": source.finished,
                "position": source.position,
            }
            for name, source in metadata.sources.items()
        ],
        "sparkBatch": None if spark is None else spark.batch_id,
        "sparkOffsets": None if spark is None else spark.offset_entry.splitlines()[2:],
        "operators": [_operator(operator) for operator in metadata.operators],
    }


def _savepoint(savepoint: dict[str, Any]) -> str:
    if savepoint["madeAt"] is not None:
        return f"savepoint {savepoint['madeAt']}"
    return f"savepoint {savepoint['path']}, NOT FINISHED: the next start, or savepoint --complete, finishes it"


def _operator(operator: OperatorState) -> dict[str, Any]:
    manifests = [shard.load() for shard in operator.shards]
    return {
        "uid": operator.uid,
        "operator": None if operator.layout is None else operator.layout.operator,
        "key": [] if operator.layout is None else list(operator.layout.key_labels),
        "keyGroupsBy": _deciding(operator.layout),
        "finished": operator.finished,
        "maxParallelism": operator.max_parallelism,
        "states": [
            {"name": item.name, "kind": item.kind, "ttlMs": item.ttl_ms, "fields": item.schema.names}
            for item in StateRegistry.from_json(operator.registry)
        ],
        "shards": [
            {
                "shard": number,
                "keyGroups": [manifest.key_groups.first, manifest.key_groups.last],
                "files": len(manifest.files),
                "sizeBytes": manifest.size_bytes,
                # A key has an entry per variable and timer, and changed ones more until files are compacted.
                "entries": sum(file.entries - file.tombstones for file in manifest.files),
                "finished": shard.finished,
                "nextEventTimer": None if shard.next_event_timer_ms is None else moment_text(shard.next_event_timer_ms),
                "nextProcessingTimer": None
                if shard.next_processing_timer_ms is None
                else moment_text(shard.next_processing_timer_ms),
            }
            for number, (shard, manifest) in enumerate(zip(operator.shards, manifests, strict=True))
        ],
    }


def _deciding(layout: StateLayout | None) -> list[str]:
    """The key columns whose hash is the key group."""
    if layout is None:
        return []
    places = layout.key_group_places
    return list(layout.key_labels) if places is None else [layout.key_labels[place] for place in places]


def _watermark(watermark_ms: int) -> str | None:
    if watermark_ms == MIN_WATERMARK:
        return None
    return "MAX_WATERMARK" if watermark_ms == MAX_WATERMARK else moment_text(watermark_ms)


def show_checkpoint(found: dict[str, Any]) -> None:
    """The same for people."""
    print_facts(
        [
            ("checkpoint", found["checkpoint"]),
            ("kind", kind_label(found["kind"], found["drained"])),
            *([("drained", _DRAINED)] if found["drained"] and found["kind"] != "completion" else []),
            ("trigger", found["trigger"] or "unknown"),
            ("time", found["time"]),
            ("epoch", found["epoch"]),
            ("watermark", found["watermark"] or "none"),
            ("late rows", found["rowsLate"]),
            ("output", "visible" if found["outputVisible"] else "pending"),
            *([] if found["savepoint"] is None else [("stopped with", _savepoint(found["savepoint"]))]),
            ("Spark batch", "none" if found["sparkBatch"] is None else found["sparkBatch"]),
            *[("Spark offset", offset) for offset in found["sparkOffsets"] or ()],
        ]
    )
    rows = [
        [one["name"], "yes" if one["isBacklog"] else "no", "yes" if one["finished"] else "no", one["position"]]
        for one in found["sources"]
    ]
    print_table(["source", "in backlog", "finished", "position"], rows, "Sources")
    for operator in found["operators"]:
        _show_operator(operator)


def _show_operator(operator: dict[str, Any]) -> None:
    finished = ", finished" if operator["finished"] else ""
    key, kind = ", ".join(operator["key"]), operator["operator"] or "keyed stage"
    by = "" if operator["keyGroupsBy"] == operator["key"] else f" by {', '.join(operator['keyGroupsBy'])}"
    print_table(
        ["state", "kind", "fields"],
        [[one["name"], one["kind"], ", ".join(one["fields"])] for one in operator["states"]],
        f"Operator {operator['uid']}: {kind} by {key or 'unknown key'}{finished}",
    )
    print_table(
        ["shard", "key groups", "files", "size", "entries", "finished", "next event timer", "next processing timer"],
        [
            [
                one["shard"],
                "{}-{}".format(*one["keyGroups"]),
                one["files"],
                size(one["sizeBytes"]),
                one["entries"],
                "yes" if one["finished"] else "no",
                one["nextEventTimer"],
                one["nextProcessingTimer"],
            ]
            for one in operator["shards"]
        ],
        f"Shards ({len(operator['shards'])} over {operator['maxParallelism']} key groups{by})",
    )
    if "keys" in operator:
        print_facts([("keys", operator["keys"])])


def local_session() -> SparkSession:
    """The active Spark session, or one of this process alone that says nothing.

    Raises:
        SetupError: there is no Java to start one with.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    check_java()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("mixedmode inspect")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def count_keys(reader: StateReader, operator: OperatorState, checkpoint: int) -> int:
    """Distinct keys that have state or a timer; reads all of it."""
    frames = [reader.state(item.name, operator.uid, checkpoint) for item in StateRegistry.from_json(operator.registry)]
    frames.append(reader.timers(operator.uid, checkpoint))
    return (
        functools.reduce(lambda one, other: one.union(other), [frame.select("key") for frame in frames])
        .distinct()
        .count()
    )
