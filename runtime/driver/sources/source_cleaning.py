"""Has files of the live source deleted or archived (``cleanSource``) once a checkpoint holds their rows.

As in Spark, those of the last micro-batch stay until the next one.  A file is cleaned once: what a run before had no
time for is looked for behind its oldest checkpoint only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ....errors import CorruptStateError
from ...checkpoints.metadata import SparkPosition
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.live_query import LiveSource
from ...spark_io.spark_sources import log_numbers
from ...spec import JobSpec
from ...support.ids import BatchId

logger = logging.getLogger(__name__)


@dataclass
class SourceCleaning:
    """Cleans up behind checkpoints of one run.

    Args:
        job: whose sources they are.
        store: has Spark's log, and the checkpoints.
        live: has the cleaners; None: there is no live source.
    """

    job: JobSpec
    store: CheckpointStore
    live: LiveSource | None
    #: Up to where files are cleaned; None: from the first file on.
    _done: SparkPosition | None = field(init=False, default=None)

    def begin(self) -> None:
        """Find where to begin; before the run has taken a checkpoint."""
        if self.live is None or not self.live.cleans:
            return
        for number in self.store.ids():
            try:
                oldest = self.store.read(number).spark
            except CorruptStateError as error:
                logger.info("checkpoint %s does not say which live files it holds: %s", number, error)
                continue
            if oldest is not None and oldest.batch_id > 0:  # those of its last micro-batch may still be there
                self._done = self._position(BatchId(oldest.batch_id - 1)) or oldest
            return

    def clean(self, position: SparkPosition | None) -> None:
        """Clean up what the micro-batches before the last one of a complete checkpoint have read.

        Args:
            position: the checkpoint's.
        """
        if self.live is None or position is None or not self.live.cleaners or self.job.live is None:
            return
        last = BatchId(position.batch_id - 1)
        if last < 0 or (self._done is not None and last <= self._done.batch_id):
            return
        end = self._position(last)
        if end is None:
            return
        for place, number in enumerate(log_numbers(self.job.live)):
            cleaner = self.live.cleaners.get(number)
            if cleaner is None:
                continue
            for path, modified_ms in self.store.spark_log.files_between(number, place, self._done, end):
                try:
                    cleaner.clean(path, modified_ms, last)
                except (Py4JError, PySparkException) as error:  # as in Spark, which tells it in its log
                    logger.warning("live file %s was not cleaned up: %s", path, error)
        self._done = end

    def _position(self, batch_id: BatchId) -> SparkPosition | None:
        """Spark's position behind a micro-batch; None: its log has it no more."""
        try:
            return self.store.spark_log.position(batch_id)
        except OSError as error:
            logger.info("Spark's log says no more where micro-batch %s ended: %s", batch_id, error)
            return None
