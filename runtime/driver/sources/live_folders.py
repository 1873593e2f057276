"""Folders of live file sources that are removed while the job is live, of which Spark says nothing.

Spark lists no files below a folder that is not there, and goes on.  The job does too, since the folder may come back;
but it says so, once when it goes and once when it is back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from ...metrics.events.facts import FactListener, LiveFolderGone, LiveFolderIsBack
from ...spark_io.spark_sources import sources
from ...storage.spark_paths import HadoopPlace

logger = logging.getLogger(__name__)

#: Least time between two looks: each is a call to the file system for each folder.
_EVERY_MS = 10_000
#: Schemes of object stores, which have no folders: a place without files is one that nobody has written to yet.
_OBJECT_STORES = ("s3:", "s3a:", "s3n:", "gs:", "abfs:", "abfss:", "wasb:", "wasbs:", "oss:", "cosn:")


@dataclass
class LiveFolders:
    """Looks whether the folders of the live input are there.

    Args:
        spark: whose settings reach the file systems.
        folders: as the user gave them.
        listener: is told what has changed.
    """

    spark: SparkSession
    folders: tuple[str, ...]
    listener: FactListener
    _gone: set[str] = field(init=False, default_factory=set)
    _looked_ms: int | None = field(init=False, default=None)

    @classmethod
    def of(cls, live: DataFrame | None, spark: SparkSession, listener: FactListener) -> LiveFolders:
        """Those of a live frame.

        Args:
            live: the frame; None: the job has none.
            spark: the session.
            listener: is told what has changed.
        """
        read = () if live is None else tuple(one for one in sources(live) if one.is_streaming)
        return cls(spark, tuple(dict.fromkeys(_looked_at(path for one in read for path in one.folders))), listener)

    def is_due(self, now_ms: int) -> bool:
        """Whether there are folders, and the last look was some time ago.

        Args:
            now_ms: the time, by any clock that only goes forward.
        """
        return bool(self.folders) and (self._looked_ms is None or now_ms - self._looked_ms >= _EVERY_MS)

    def look(self, now_ms: int) -> None:
        """Tell what has changed, if the last look was some time ago.

        Args:
            now_ms: as of :meth:`is_due`.
        """
        if not self.is_due(now_ms):
            return
        self._looked_ms = now_ms
        for folder in self.folders:
            try:
                is_gone = not HadoopPlace(self.spark, folder).exists()
            except Exception as error:  # whatever it is: Spark's own listing is what the job hangs on
                logger.debug("whether the live folder %s is there cannot be told: %s", folder, error)
                continue
            if is_gone and folder not in self._gone:
                self._gone.add(folder)
                logger.warning(
                    "the live folder %s is gone: Spark finds no files there, and the job waits for them. Create the"
                    " folder again, or stop the job",
                    folder,
                )
                self.listener.on(LiveFolderGone(folder))
            elif not is_gone and folder in self._gone:
                self._gone.remove(folder)
                self.listener.on(LiveFolderIsBack(folder))


def _looked_at(folders: Iterable[str]) -> list[str]:
    return [folder for folder in folders if not folder.lower().startswith(_OBJECT_STORES)]
