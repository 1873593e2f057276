"""Shows the output of a complete checkpoint, once."""

from __future__ import annotations

from ....errors import CheckpointError, CorruptStateError, MixedModeError, OptionError, UserCodeError
from ...checkpoints.metadata import CheckpointMetadata
from ...checkpoints.store import CheckpointStore
from ...connectors.transaction import SinkTransaction
from ...jvm.spark_errors import cause_first
from ...spec import JobSpec
from ...support.failpoints import failpoint
from .staged_output_migration import pending_transaction


def pending_output(job: JobSpec, store: CheckpointStore, metadata: CheckpointMetadata) -> SinkTransaction:
    """What a crash has kept from being shown, read and checked: it has lain on disk for who knows how long."""
    if store.is_committed(metadata.checkpoint_id):
        return metadata.transaction
    try:
        return pending_transaction(job, store, metadata)
    except CorruptStateError as error:
        raise store.with_alternative(error, metadata.checkpoint_id) from error


def commit_transaction(
    job: JobSpec,
    store: CheckpointStore,
    metadata: CheckpointMetadata,
    transaction: SinkTransaction | None = None,
    *,
    is_new: bool = False,
) -> None:
    """Make a complete checkpoint's output visible, once; a marker spares later recoveries the look at the files.

    Args:
        job: whose sink it is.
        store: where the checkpoint is.
        metadata: the checkpoint.
        transaction: what its output is by now; None: what it was.
        is_new: this driver has just written it, so nobody can have shown its output.

    Raises:
        CheckpointError: that failed.  The checkpoint is complete all the same, so it is no failure to be tolerated.
    """
    if not is_new and store.is_committed(metadata.checkpoint_id):
        return
    try:
        _commit(job, store, metadata, transaction or metadata.transaction)
    except Exception as error:
        if isinstance(error, MixedModeError) and not isinstance(error, UserCodeError):
            raise
        advice = (
            f"checkpoint {metadata.checkpoint_id} is complete, but showing its output failed. Nothing is lost: start"
            " the query again once the cause is gone, and it shows the output before anything else"
        )
        raise CheckpointError(
            f"{cause_first(error)}\n{advice}",
            code="MIXEDMODE_OUTPUT_NOT_SHOWN",
        ) from error


def _commit(job: JobSpec, store: CheckpointStore, metadata: CheckpointMetadata, transaction: SinkTransaction) -> None:
    store.guard()
    job.sink.commit(transaction)
    if job.late_rows is not None:
        job.late_rows.commit(metadata.late_rows)
    elif metadata.late_rows is not None:
        raise OptionError(
            f"checkpoint {metadata.checkpoint_id} in {store.location!r} has late rows that are not visible yet, and"
            " pipeline.late-data.path is unset; set it as it was, at least until the next checkpoint"
        )
    failpoint("checkpoint-after-commit")
    store.mark_committed(metadata.checkpoint_id)
