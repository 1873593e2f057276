"""Decides where each stage stages its rows: in a handoff to the next stage, or with the sink's output."""

from __future__ import annotations

from collections.abc import Mapping

from ...checkpoints.store import CheckpointStore
from ...connectors.output_place import OutputPlace
from ...connectors.stage_handoff import StageHandoff
from ...connectors.staging_folder import StagingFolder
from ...operators.emission_watermark import emitted_schema
from ...spec import JobSpec
from ...storage.spark_paths import spark_uri


def handoffs_of(job: JobSpec, store: CheckpointStore) -> dict[str, StageHandoff]:
    """What stages hand on to others, or the last one to a job behind it, by stage."""
    schemas = {
        stage.uid: emitted_schema(stage.operator.output_schema) for stage in job.stages if stage is not job.last_stage
    }
    if job.output_transform_behind is not None:
        schemas[job.last_stage.uid] = job.output_transform_behind.row_schema
    found = {}
    for uid, schema in schemas.items():
        folder = store.handoff(uid)
        uri = spark_uri(job.spark, job.checkpoint_location or store.location, folder)
        found[uid] = StageHandoff(job.planning, StagingFolder(store.filesystem, folder, uri), schema)
    return found


def output_place_of(job: JobSpec, handoffs: Mapping[str, StageHandoff], uid: str) -> OutputPlace:
    """Where the tasks of a stage put their rows; the sink must be open."""
    return handoffs[uid].place if uid in handoffs else job.sink.output
