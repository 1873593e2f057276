"""Files of the live source that were processed, and are in no checkpoint yet: a restart reads them once more.

Spark passes over a file that is gone without a word, and reads another one of its name as if it were the same.  So
before its log is rewound, every file that a committed micro-batch behind the checkpoint has read is looked at: it must
be there, and as it was.  What was planned and never processed may go: nobody has counted on its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import DataLossError
from ...checkpoints.metadata import SparkPosition
from ...checkpoints.store import CheckpointStore
from ...connectors.sources.data_loss import is_tolerant
from ...connectors.sources.live_sources import live_sources
from ...spark_io.spark_sources import log_numbers
from ...spec import JobSpec
from ...storage.spark_paths import UNREACHABLE, HadoopPlace
from ...support.ids import FIRST_BATCH

logger = logging.getLogger(__name__)

#: So many files a message names.
_NAMED = 5


@dataclass(frozen=True)
class LostFile:
    """A file whose rows a replay would miss, or take for others."""

    path: str
    #: ``gone``: it is there no more.  ``changed``: it was written again since.
    fate: str

    def __str__(self) -> str:
        return f"{self.path} ({'gone' if self.fate == 'gone' else 'written again since'})"


def lost_before_replay(job: JobSpec, store: CheckpointStore, position: SparkPosition) -> list[LostFile]:
    """The files that are gone or changed, of sources that go on without them (``failOnDataLoss = false``).

    Args:
        job: whose live source it is.
        store: has Spark's log, which was not rewound yet.
        position: what the checkpoint holds.

    Raises:
        DataLossError: there are some of another source.
    """
    reached = None if job.live is None else store.spark_log.committed_behind(position.batch_id)
    return [] if reached is None else _lost_between(job, store, position, reached, "since its last checkpoint")


def lost_of_backlog(job: JobSpec, store: CheckpointStore, entry: str) -> list[LostFile]:
    """As :func:`lost_before_replay`, for the first batch of an interrupted backlog of which shards are finished.

    Those hold the rows of all its files; the others would be computed without the rows of a file that is gone.

    Args:
        job: whose live source it is.
        store: has Spark's log.
        entry: what the batch has read, as Spark's log of offsets says it.

    Raises:
        DataLossError: as :func:`lost_before_replay`.
    """
    end = SparkPosition(batch_id=FIRST_BATCH, offset_entry=entry)
    return _lost_between(job, store, None, end, "in its unfinished backlog")


def _lost_between(
    job: JobSpec, store: CheckpointStore, begin: SparkPosition | None, end: SparkPosition, when: str
) -> list[LostFile]:
    assert job.live is not None, "somebody has read it"
    log, tolerated = store.spark_log, list[LostFile]()
    noted = zip(log_numbers(job.live), live_sources(job.live), strict=True)
    for place, (number, source) in enumerate(noted):
        if not source.is_files:
            continue
        lost = []
        for path, modified_ms in log.files_between(number, place, begin, end):
            now_ms = _modified_ms(job, path, source.options)
            if now_ms != modified_ms:
                lost.append(LostFile(path, "gone" if now_ms is None else "changed"))
        if lost and not is_tolerant(source):
            raise DataLossError(_text(lost, when))
        for one in lost:
            logger.warning("%s: the job has read it %s; it continues with what is there now", one, when)
        tolerated += lost
    return tolerated


def _modified_ms(job: JobSpec, path: str, options: dict[str, str]) -> int | None:
    """When a file was last written; None: it is gone.  Where nobody answers, the read itself says so."""
    try:
        return HadoopPlace.of_uri(job.spark, path, options).modified_ms()
    except UNREACHABLE as error:
        logger.info("it is unknown whether %s is unchanged: %s", path, error)
        return None


def _text(lost: Sequence[LostFile], when: str) -> str:
    named = "; ".join(map(str, lost[:_NAMED])) + (f"; and {len(lost) - _NAMED} more" if len(lost) > _NAMED else "")
    return (
        f"{len(lost)} live files that the job has read {when} are gone or changed\nIt must read them again: {named}."
        " Put them back as they were (same content and modification time); or set failOnDataLoss = false on the source"
        " to go on with what is there now, and each file is told as lost"
    )
