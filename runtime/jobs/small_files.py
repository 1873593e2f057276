"""Finds out whether the task of few rows can read their file by itself; asks Spark once, not in each epoch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..catalyst.prepared.micro_batch import AlikeFrames
from ..catalyst.prepared.unread_batches import UnreadBatch, begin_unread, end_unread, without_rows
from ..scan.parquet_scan import FilePart, NotTakenError
from ..scan.row_scans import RecognisedRows, recognised_micro_batch
from ..storage.filesystem import resolve
from ..tasks.shard.shard_task import ShardTask
from ..tasks.shard.small_file import SmallFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

#: So many micro-batches in a row that Spark has to read all the same have it read all that follow.
_MANY = 3


class SmallFiles:
    """What reads the files of a stage's micro-batches in its task.

    Args:
        uid: the stage.
    """

    def __init__(self, uid: str) -> None:
        self._uid = uid
        #: By the columns that are asked for; None: Spark reads them.
        self._known: dict[tuple[str, ...], RecognisedRows | None] = {}
        self._given_up = False
        #: How many micro-batches in a row have come unread in vain.
        self._without = 0

    def give_up(self, why: str) -> None:
        """From now on Spark reads the files; ``why``: what the task has said."""
        logger.info("from now on Spark reads the files of stage %s: %s", self._uid, why)
        self._given_up = True

    def ways(self, frame: DataFrame, task: ShardTask) -> Iterator[tuple[DataFrame, ShardTask]]:
        """The input and the task that works on all shards; the second one is for when the task has not read a file.

        Args:
            frame: the rows.
            task: works on them.
        """
        reading = self.read_in_task(frame, task)
        if reading is not None:
            yield reading
        yield frame, task

    def read_in_task(self, frame: DataFrame, task: ShardTask) -> tuple[DataFrame, ShardTask] | None:
        """An input without rows, and the task that reads them from their file; None: Spark reads them.

        Those that follow a micro-batch that Spark has read come unread, if tasks can read such.

        Args:
            frame: the epoch's input.
            task: works on all shards.
        """
        names = None if task.few_rows is None else task.few_rows.input_columns
        if names is None or AlikeFrames.of(frame) is None:
            return None
        scan = self._scan(frame, names)
        if scan is None:
            end_unread(frame)
            return None
        if not isinstance(frame, UnreadBatch):
            if not begin_unread(frame):
                self.give_up("Spark has read them before it hands them over")
            return None
        self._without = 0 if frame.file is not None else self._without + 1
        if frame.file is None:
            if self._without >= _MANY:
                self.give_up(f"the last {_MANY} micro-batches were not one small file that is read as it is")
                end_unread(frame)
            return None
        uri, size_bytes = frame.file
        try:
            filesystem, path = resolve(unquote(uri))
        except (OSError, ValueError) as error:
            self.give_up(str(error))
            return None
        columns = dict(scan.columns)
        file = SmallFile(scan.scan, tuple(columns[name] for name in names), filesystem, FilePart(path, 0, size_bytes))
        return without_rows(frame), replace(task, file=file)

    def _scan(self, frame: DataFrame, names: tuple[str, ...]) -> RecognisedRows | None:
        if self._given_up:
            return None
        if names not in self._known:
            try:
                self._known[names] = recognised_micro_batch(frame, names)
            except NotTakenError as error:
                logger.info("Spark reads the files of stage %s also where they are small: %s", self._uid, error)
                self._known[names] = None
        return self._known[names]
