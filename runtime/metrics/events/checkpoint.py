"""What is told of a checkpoint that is complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CheckpointReport:
    """What a checkpoint did, for progress."""

    checkpoint_id: int
    trigger: str
    #: "checkpoint", "completion" (the job ends with it), or "savepoint" (it was taken to be written as one).
    kind: str
    drained: bool
    duration_ms: int
    state_bytes: int
    keys: int
    #: What is in it that the one before did not have.
    new_files: int
    new_bytes: int = 0
    files: int = 0
    #: What became visible with it (nothing for a sink that shows rows at once).
    output_rows: int = 0
    output_bytes: int = 0
    #: Its parts: write (``_metadata``) and commit (the sink).
    durations_ms: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.checkpoint_id,
            "trigger": self.trigger,
            "kind": self.kind,
            "drained": self.drained,
            "durationMs": self.duration_ms,
            "durationsMs": self.durations_ms,
            "stateBytes": self.state_bytes,
            "stateEntries": self.keys,
            "stateFiles": self.files,
            "newFiles": self.new_files,
            "newBytes": self.new_bytes,
            "numOutputRows": self.output_rows,
            "outputBytes": self.output_bytes,
        }
