"""What a reader of a checkpoint must know of an operator, which it does not have."""

from __future__ import annotations

from ...state.registry import StateRegistry, schema_to_json
from ..operators.contract import KeyedOperator
from .metadata import (
    CheckpointMetadata,
    StateLayout,
)


def layout_of(operator: KeyedOperator) -> StateLayout:
    """What a reader must know of an operator's state."""
    return StateLayout(
        operator=operator.kind,
        key_labels=operator.key_labels,
        key_schema=schema_to_json(operator.key_schema),
        values=operator.state_values,
    )


def stored_registry(metadata: CheckpointMetadata, uid: str) -> StateRegistry | None:
    """The registry under which an operator's state was written."""
    for operator in metadata.operators:
        if operator.uid == uid:
            return StateRegistry.from_json(operator.registry)
    return None
