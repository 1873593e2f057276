"""Describes an operator's state for readers that do not have the operator, and a stage without state."""

from __future__ import annotations

from ...state.keys.keygroups import shard_ranges
from ...state.keys.registry import schema_to_json
from ...state.store.state_manifest import StateManifest
from ..operators.contract import KeyedOperator
from ..spec import JobSpec
from .metadata import OperatorState, ShardState, StateLayout


def layout_of(operator: KeyedOperator) -> StateLayout:
    """What a reader must know of an operator's state."""
    return StateLayout(
        operator=operator.kind,
        key_labels=operator.key_labels,
        key_schema=schema_to_json(operator.key_schema),
        values=operator.state_values,
        key_group_places=operator.key_group_places,
    )


def empty_stage(job: JobSpec, operator: KeyedOperator) -> OperatorState:
    """A stage without state, in as many shards as the job would begin with."""
    settings = job.settings
    ranges = shard_ranges(settings.shards(job.spark), settings.max_parallelism)
    return OperatorState(
        uid=operator.uid,
        layout=layout_of(operator),
        max_parallelism=settings.max_parallelism,
        registry=operator.registry.to_json(),
        record=operator.state_record,
        shards=tuple(ShardState(lineage=StateManifest(groups).to_json()) for groups in ranges),
    )
