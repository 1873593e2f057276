"""Chooses how the state of an operator is read: a scan for each of its variables."""

from __future__ import annotations

from ....state.keys.registry import StateDescriptor, StateRegistry
from ...checkpoints.metadata import OperatorState
from ...operators.join.definition import HEADS
from .join_scan import JoinScan
from .scan_task import RecordScan, RowScan, Shards, known_layout


def scans_of(stored: OperatorState, shards: Shards) -> dict[str, RowScan | RecordScan]:
    """A scan for each state variable."""
    values = known_layout(stored).values
    registry = StateRegistry.from_json(stored.registry)
    if values == "joined":
        # Its other variables are parts of this one.
        return {HEADS: JoinScan(shards, registry.get(HEADS), sessions=True)}

    def scan(item: StateDescriptor) -> RowScan | RecordScan:
        return RowScan(shards, item) if values == "rows" else RecordScan(shards, item, values == "sessions")

    return {item.name: scan(item) for item in registry}
