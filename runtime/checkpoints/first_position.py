"""Keeps the first position of the live sources: settled once, before anything is read, through any crash.

Below ``<checkpointLocation>/mixedmode/first-position``::

    position.json    which sources they are; with Spark's entry of micro-batch 0, once that is committed
    rows/*.parquet   the rows of that micro-batch, until a checkpoint holds them

A source that logs its start is left to its log: Spark's ``sources/`` outlives a crash.  Any other is asked again until
Spark has committed a micro-batch, so a first one is run and committed at once; of a source that begins "from now" it is
empty, and rows that it has all the same are landed here and read with the backlog.

A source that was told to begin behind an offset (:data:`~..connectors.sources.live_sources.FIRST_OFFSET`) is one whose
log says that it has read up to there, before it has read anything: two micro-batches that nobody has run, since Spark
asks a source for the rows between its last two.

Invariants:
- ``position.json`` with an entry is written when the rows are durable and before Spark commits the micro-batch: from
  then on recovery goes back to behind that micro-batch, whatever Spark's log says.
- Before it is written nothing of the micro-batch has been used.
- The folder is removed when no retained checkpoint lacks a position of its own.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from ...errors import CorruptStateError, PlanError
from ...state.store.disk_syncs import sync_path
from ..connectors.sources.live_query import LiveSource
from ..connectors.sources.live_sources import LiveSourceFacts
from ..spark_io.parquet import read_parquet
from ..storage.checksummed import read_sealed, write_sealed
from ..storage.filesystem import delete_quietly, exists, is_local_disk, list_files
from ..storage.spark_paths import spark_uri
from ..support.failpoints import failpoint
from ..support.ids import FIRST_BATCH, BatchId
from .metadata import SparkPosition
from .store import CheckpointStore

logger = logging.getLogger(__name__)

_FORMAT = 1
#: The number of the micro-batch up to which sources seem to have read that were told where to begin.
_STATED_BATCH = BatchId(1)
#: Name of the folder below ``<checkpointLocation>/mixedmode``.
FOLDER = "first-position"


@dataclass(frozen=True)
class FirstPosition:
    """What ``position.json`` says."""

    #: The identity of each source.
    sources: tuple[str, ...]
    #: Spark's entry of a micro-batch that is behind the job; None: the sources' own logs say where they begin.
    entry: str | None = None
    #: Rows of the micro-batch that were landed.
    rows: int = 0
    #: The number of the micro-batch that the entry is of.
    batch: BatchId = FIRST_BATCH


@dataclass
class FirstPositions:
    """The first positions of one checkpoint location.

    Args:
        store: the location.
        sources: the job's live sources.
    """

    store: CheckpointStore
    sources: tuple[LiveSourceFacts, ...]
    _filesystem: fs.FileSystem = field(init=False)

    def __post_init__(self) -> None:
        self._filesystem = self.store.filesystem

    @property
    def folder(self) -> str:
        """Where they are kept."""
        return f"{self.store.root}/{FOLDER}"

    @property
    def _file(self) -> str:
        return f"{self.folder}/position.json"

    @property
    def _rows(self) -> str:
        return f"{self.folder}/rows"

    @property
    def _are_asked(self) -> bool:
        return any(source.first_position_by == "asked" for source in self.sources)

    @property
    def _are_stated(self) -> bool:
        return all(source.first_offset is not None for source in self.sources)

    @property
    def _identities(self) -> tuple[str, ...]:
        return tuple(source.identity for source in self.sources)

    def load(self) -> FirstPosition | None:
        """What was settled; None: nothing yet.

        Raises:
            CorruptStateError: it is damaged.
        """
        if not exists(self._filesystem, self._file):
            return None
        try:
            body = read_sealed(self._filesystem, self._file)
            return FirstPosition(tuple(body["sources"]), body["entry"], body["rows"], body.get("batch", 0))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStateError(
                f"{self._file}, which says where the live source begins, is damaged ({error}); restore it, or start "
                "again with a new checkpointLocation and a new output path"
            ) from error

    def _save(self, position: FirstPosition) -> FirstPosition:
        self._filesystem.create_dir(self.folder, recursive=True)
        write_sealed(self._filesystem, self._file, {"format": _FORMAT, **asdict(position)})
        return position

    def discard(self) -> None:
        """Forget what was settled, and the landed rows."""
        delete_quietly(self._filesystem, self.folder)

    # -- at recovery -------------------------------------------------------------------------------------------------

    def go_back(self, *, replay: bool = False, entry: str | None = None) -> bool:
        """Take Spark's log back to where the sources begin; no checkpoint has a position.

        Args:
            replay: hand the first micro-batch over again with the very rows that it had.
            entry: Spark's entry of that micro-batch; None: not known.

        Returns:
            False if nothing of an earlier run holds: there was none, or its sources were others.

        Raises:
            CorruptStateError: the log of a source that begins from now is damaged.
        """
        log, known = self.store.spark_log, self.load()
        if not self.sources:
            log.clear()
            return True
        if known is None or known.sources != self._identities:
            if known is not None:
                logger.warning(
                    "an earlier run of the job in %s read from %s and left no checkpoint; this one reads from %s and "
                    "begins where that begins now",
                    self.store.location,
                    ", ".join(known.sources) or "no live source",
                    ", ".join(self._identities) or "none",
                )
            log.clear()
            self.discard()
            return False
        try:
            log.check()
        except CorruptStateError as error:
            if not all(source.is_files for source in self.sources):
                raise
            logger.warning("%s: no checkpoint depends on it, so the job starts from the beginning", error)
            log.clear()
            return False
        if known.entry is not None:
            log.rewind(SparkPosition(batch_id=known.batch, offset_entry=known.entry))
            if replay and entry is not None and self._are_stated:
                log.plan(BatchId(known.batch + 1), entry)
        elif replay:
            log.replay(entry)
        else:
            # A planned first micro-batch is the only trace of the position of a source that does not log it.
            log.restart(keep_planned=self._are_asked)
        return True

    # -- at the first start ------------------------------------------------------------------------------------------

    def settle(self, live: LiveSource, location: str, *, history_first: bool) -> FirstPosition:
        """Settle where the sources begin, unless an earlier run has.

        Args:
            live: the job's live query, which does not run.
            location: the checkpoint location as the user gave it.
            history_first: whether history is read before the live query starts.

        Raises:
            PlanError: a source is to begin from now, and nothing can keep that position.
        """
        known = self.load()
        if known is None:
            known = self._save(FirstPosition(self._identities))
        if known.entry is not None:
            return known
        if self._are_asked:
            return self._commit_first(live, location) or known
        stated = live.stated_entry(self.sources)
        if stated is not None:
            self._begin_behind(stated)
        if history_first and not all(source.is_files or source.first_offset for source in self.sources):
            logged = self._have_logged(live)
            if logged is not None or stated is None:
                return logged or known
            self._begin_behind(stated)
        return known if stated is None else self._save(FirstPosition(self._identities, stated, batch=_STATED_BATCH))

    def _begin_behind(self, stated: str) -> None:
        self.store.spark_log.begin_behind(SparkPosition(batch_id=_STATED_BATCH, offset_entry=stated))

    def _commit_first(self, live: LiveSource, location: str) -> FirstPosition | None:
        """Run and commit micro-batch 0, its rows landed."""
        settled: list[FirstPosition] = []

        def land(batch: DataFrame, batch_id: BatchId) -> None:
            delete_quietly(self._filesystem, self._rows)
            batch.write.mode("overwrite").parquet(spark_uri(batch.sparkSession, location, self._rows))
            rows = self._make_durable()
            failpoint("first-rows-landed")
            settled.append(self._settled(batch_id, rows=rows))
            if not rows:
                delete_quietly(self._filesystem, self._rows)
            failpoint("first-position-saved")

        live.drain(land, at_once=True, whole=True)  # another version of the job may take the landed rows
        if settled:
            return settled[-1]
        for source in self.sources:
            if source.first_position_by == "asked" and source.from_now is not None:
                raise PlanError(
                    f"live source {source.name!r} is to begin from now ({source.from_now}), but keeps no record of it "
                    "and gives Spark no position before its first rows: what arrives before the first checkpoint could"
                    " be lost in a crash. Give it an explicit position instead (a version, an offset or a timestamp)",
                    code="MIXEDMODE_POSITION_UNKNOWN",
                )
        return None

    def _settled(self, batch_id: BatchId, **known: Any) -> FirstPosition:
        """The position of a micro-batch, kept as the first."""
        entry = self.store.spark_log.position(batch_id).offset_entry
        return self._save(FirstPosition(self._identities, entry, **known))

    def _have_logged(self, live: LiveSource) -> FirstPosition | None:
        """Have the sources write down where they begin; an empty first micro-batch is committed on the way."""
        settled: list[FirstPosition] = []

        def look(batch: DataFrame, batch_id: BatchId) -> None:
            if batch.isEmpty():
                settled.append(self._settled(batch_id, batch=batch_id))

        live.drain(look, at_once=True)
        if settled:
            return settled[-1]
        self.store.spark_log.restart()  # its rows come after the history
        return None

    def _make_durable(self) -> int:
        """Sync the landed files; returns how many rows they hold."""
        rows = 0
        for info in list_files(self._filesystem, self._rows):
            if info.base_name.endswith(".parquet") and not info.base_name.startswith((".", "_")):
                with self._filesystem.open_input_file(info.path) as file:
                    rows += pq.read_metadata(file).num_rows
                if is_local_disk(self._filesystem):
                    sync_path(info.path)
        if is_local_disk(self._filesystem):
            sync_path(self._rows)
        return rows

    def landed(self, spark: SparkSession, live: DataFrame, location: str) -> DataFrame:
        """The landed rows, as rows of the live frame."""
        return read_parquet(spark, live.schema, spark_uri(spark, location, self._rows))


def discard_if_behind(store: CheckpointStore) -> None:
    """After a checkpoint: forget the first position if every retained checkpoint has one of its own."""
    folder = f"{store.root}/{FOLDER}"
    if not exists(store.filesystem, folder):
        return
    try:
        if all(store.read(checkpoint_id).spark is not None for checkpoint_id in store.ids()):
            delete_quietly(store.filesystem, folder)
    except CorruptStateError:
        return  # whoever goes back behind that checkpoint may need it
