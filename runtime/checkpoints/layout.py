"""What a reader of a checkpoint must know of an operator, which it does not have."""

from __future__ import annotations

from ...state.registry import schema_to_json
from ..operators.contract import KeyedOperator
from .metadata import (
    StateLayout,
)


def layout_of(operator: KeyedOperator) -> StateLayout:
    """What a reader must know of an operator's state."""
    return StateLayout(
        operator=operator.kind,
        key_labels=operator.key_labels,
        key_schema=schema_to_json(operator.key_schema),
        values=operator.state_values,
        key_group_places=operator.key_group_places,
    )
