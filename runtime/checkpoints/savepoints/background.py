"""Writes the savepoints of a job that goes on, on a thread of their own.

The cut is made by the job, between two epochs: a checkpoint whose files never change.  They are only kept from being
removed; copying them, however long it takes, does not hold the job up.

Invariants: savepoints are written one after the other; the files of each are held from before the job goes on until its
request is answered; the failure of one is only its asker's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from ..metadata import CheckpointMetadata
from ..store import CheckpointStore
from .queue import SavepointRequest
from .writer import SavepointDraft, check_has_state

logger = logging.getLogger(__name__)


class SavepointCopies:
    """The savepoints that are being written.

    Args:
        store: the job's checkpoint store.
        plan_json: the job's execution plan.
        on_written: called with the path of each savepoint that is complete.
    """

    def __init__(self, store: CheckpointStore, plan_json: str, on_written: Callable[[str], None]) -> None:
        self._store = store
        self._plan_json = plan_json
        self._on_written = on_written
        self._thread: ThreadPoolExecutor | None = None

    def begin(self, metadata: CheckpointMetadata, requests: Sequence[SavepointRequest]) -> None:
        """Have a checkpoint that was just taken written to where the requests say; they are answered later."""
        if not requests:
            return
        with ExitStack() as stack:
            stack.enter_context(self._store.retention.holding(metadata))
            try:
                check_has_state(self._store, metadata)  # now: once it is subsumed nobody can tell
            except Exception as error:
                for request in requests:
                    request.report_failure(error)
                return
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="mixedmode-savepoint")
            self._thread.submit(self._write, metadata, requests, stack.pop_all())

    def wait(self) -> None:
        """Return when all are answered; nothing begins after it."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def _write(self, metadata: CheckpointMetadata, requests: Sequence[SavepointRequest], held: ExitStack) -> None:
        with held:
            for request in requests:
                try:
                    with SavepointDraft(self._store, request.path, self._plan_json, request.savepoint_id) as draft:
                        path = draft.finish(metadata)
                    if metadata.savepoint is not None and metadata.savepoint.savepoint_id == request.savepoint_id:
                        self._store.mark_savepoint_made(metadata.checkpoint_id, path)
                except BaseException as error:
                    logger.warning("savepoint %s failed: %s", request.path, error)
                    request.report_failure(error)
                else:
                    self._on_written(path)
                    request.answer.set_result(path)
