"""``mixedmode.events``: what runs tell, to listeners (``mixedmode.add_listener``) and in the history of a location.

    from mixedmode import events

    for event in mixedmode.read_history("checkpoints/"):
        if isinstance(event, events.CheckpointFailed):
            print(event.at_ms, event.error)

Each is a frozen dataclass of plain data; ``events.to_json(event)`` gives it as a dictionary.
"""

from __future__ import annotations

from .runtime.metrics.events.event_json import to_json
from .runtime.metrics.events.events import (
    BacklogProgressed,
    CheckpointCompleted,
    CheckpointFailed,
    DataLost,
    EpochApplied,
    InputNode,
    Latencies,
    Noted,
    PhaseBegan,
    PlannedPhase,
    PositionsKnown,
    RealTimeProgressed,
    RunBegan,
    RunEnded,
    RunEvent,
    RunRestored,
    SavepointWritten,
    ShardsRescaled,
    ShardTime,
    SourceChanged,
    SourcePosition,
    SourceProgress,
    StageNode,
    StageProgress,
    UnknownEvent,
)

__all__ = [
    "BacklogProgressed",
    "CheckpointCompleted",
    "CheckpointFailed",
    "DataLost",
    "EpochApplied",
    "InputNode",
    "Latencies",
    "Noted",
    "PhaseBegan",
    "PlannedPhase",
    "PositionsKnown",
    "RealTimeProgressed",
    "RunBegan",
    "RunEnded",
    "RunEvent",
    "RunRestored",
    "SavepointWritten",
    "ShardTime",
    "ShardsRescaled",
    "SourceChanged",
    "SourcePosition",
    "SourceProgress",
    "StageNode",
    "StageProgress",
    "UnknownEvent",
    "to_json",
]
