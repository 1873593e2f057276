"""Where the stages of a job put their rows: the last one into the sink's staging, all others into exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..connectors.exchange import Exchange
from ..connectors.output_place import OutputPlace
from ..operators.emission import emitted_schema
from ..platform.spark_paths import spark_uri

if TYPE_CHECKING:
    from ..checkpoints.store import CheckpointStore
    from ..spec import JobSpec


def exchanges_of(job: JobSpec, store: CheckpointStore) -> dict[str, Exchange]:
    """What stages hand on to others, by stage."""
    found = {}
    for stage in job.stages:
        if stage.uid != job.last_stage.uid:
            folder = store.exchange(stage.uid)
            uri = spark_uri(job.spark, job.checkpoint_location or store.location, folder)
            found[stage.uid] = Exchange(
                job.spark, store.filesystem, folder, uri, emitted_schema(stage.operator.output_schema)
            )
    return found


def place_of(job: JobSpec, exchanges: Mapping[str, Exchange], uid: str) -> OutputPlace:
    """Where the tasks of a stage put their rows; the sink must be open."""
    return exchanges[uid].place if uid in exchanges else job.sink.output
