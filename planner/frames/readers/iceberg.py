"""``mixedmode.iceberg``: an Iceberg table as the live side of a job, right behind a snapshot that its history has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ....errors import PlanError
from ....runtime.connectors.sources.live_sources import FIRST_OFFSET
from ....runtime.jvm.spark_errors import spark_says
from ....runtime.spark_io.connector_packages import check_connector
from ....runtime.spark_io.spark_iceberg import IcebergSnapshot, current_snapshot_id, iceberg_reads, snapshots
from ...inputs.environment import refuse_connect
from ...inputs.seam import Seam
from ..frame import MixedFrame
from .reading import read as read_frames
from .seamed import (
    Parse,
    as_they_are,
    check_fixed,
    history_end,
    history_text,
    parsed,
    source_options,
    with_seam,
)

__all__ = ["read"]

#: Options that say which snapshots are read; :func:`read` says that itself.
_OURS = (
    *("snapshot-id", "as-of-timestamp", "start-snapshot-id", "end-snapshot-id", "stream-from-timestamp"),
    *("versionasof", "timestampasof", "branch", "tag", FIRST_OFFSET),
)
_WHY_OURS = (
    "says which snapshots are read, which snapshot and history do; leave it out, or read the table by spark.readStream"
    " and give it to mixedmode.read()"
)
#: The option with which a stream goes on behind a snapshot of this kind.
_SKIPS = {"overwrite": "streaming-skip-overwrite-snapshots", "delete": "streaming-skip-delete-snapshots"}
_HINT = "Give a later snapshot, or begin all the same with iceberg.read(…, tolerate_gaps=True)"


def read(
    spark: SparkSession,
    table: str,
    *,
    snapshot: int | None = None,
    parse: Parse | None = None,
    history: DataFrame | None = None,
    tolerate_gaps: bool = False,
    options: Mapping[str, Any] | None = None,
) -> MixedFrame:
    """Describes a job over an Iceberg table: up to a snapshot as its backlog, and from the next one as its stream.

        from mixedmode import iceberg

        flights = iceberg.read(spark, "lake.flights")

    The history is the table at ``snapshot``, read as a batch.  The stream begins with the next snapshot, whether or not
    it exists yet.  You can give another history that holds what the table had up to ``snapshot``.

    ``start()`` raises an error if the snapshots show that the table was rolled back before that one, that later ones
    are gone, or that one removes rows (a stream of Iceberg fails there).  A restarted job continues from the position
    of its checkpoint.

    Args:
        spark: a session with Iceberg's runtime.
        table: the name of the table in a catalog of Iceberg, or the folder of a table without a catalog.
        snapshot: the id of the last snapshot of the history; None: the newest, or the one that ``history`` reads.  A
            job
            in runtime-mode streaming that is restarted within its history must get the one that it began with.
        parse: makes rows of the table's rows; None: no change.
        history: a batch DataFrame with the columns of those rows; None: the table itself.
        tolerate_gaps: log a warning instead of an error if the snapshots show that rows are lost.
        options: further options of Iceberg's stream: ``streaming-max-files-per-micro-batch``…

    Raises:
        PlanError: the table or snapshot does not exist, or does not fit the history.
        OptionError: an option says which snapshots are read.
        SetupError: the session lacks Iceberg's runtime.
    """
    refuse_connect(spark)
    source = _Table.of(spark, table)
    check_connector(spark, "iceberg")
    given, rows_of = source_options(options, _OURS, _WHY_OURS), parse or as_they_are
    known, newest = source.snapshots()
    held = _held(source, history)
    if history is not None:
        snapshot = history_end("snapshot", source.label, held, snapshot)
    behind = _behind(source, known, newest, newest if snapshot is None else snapshot)
    skips = {kind for kind, option in _SKIPS.items() if given.get(option, "false").lower() == "true"}
    if behind.operation in _SKIPS and behind.operation not in skips:
        option = _SKIPS[behind.operation]
        raise PlanError(
            f"snapshot {behind.snapshot_id} of {source.label} is of kind {behind.operation}, after which a stream of"
            f" Iceberg cannot begin unless it skips such snapshots, later ones too: options={{'{option}': True}}; or"
            " give a snapshot that appends",
            code="MIXEDMODE_SEAM_BROKEN",
        )
    bounded = history
    if bounded is None:
        bounded = parsed(rows_of, source.loaded(spark.read.option("versionAsOf", behind.snapshot_id)))
    text = history_text("snapshot", source.label, behind.snapshot_id, history, bool(held))
    reader = spark.readStream.options(**given).option(FIRST_OFFSET, behind.next_offset)
    live = parsed(rows_of, source.loaded(reader))
    text += f", and live from right behind snapshot {behind.snapshot_id} on"
    flaws = tuple(_flaws(known, newest, behind, skips))
    return with_seam(read_frames(bounded, live), Seam(text, flaws, tolerate_gaps, _HINT))


@dataclass(frozen=True)
class _Table:
    """The table, by its name or by its folder."""

    spark: SparkSession
    name: str | None
    path: str | None

    @classmethod
    def of(cls, spark: SparkSession, table: str) -> _Table:
        if not isinstance(table, str) or not table.strip():
            raise PlanError(f"table must be the name or the folder of a table, got {table!r}")
        return cls(spark, None, table) if "/" in table else cls(spark, table, None)

    @property
    def label(self) -> str:
        return f"the Iceberg table {self.path or self.name}"

    def loaded(self, reader: Any) -> DataFrame:
        """What a reader of batches or of a stream makes of it."""
        frame: DataFrame = reader.table(self.name) if self.path is None else reader.format("iceberg").load(self.path)
        return frame

    def snapshots(self) -> tuple[dict[int, IcebergSnapshot], int]:
        """All snapshots, and the id of the newest."""
        try:
            known = snapshots(self.spark, self.name, self.path)
            newest = current_snapshot_id(self.spark, self.name, self.path)
        except PySparkException as error:
            raise PlanError(
                f"{self.label} cannot be read: {spark_says(error)}; it must be one of a catalog of Iceberg"
                " (spark.sql.catalog.<name> = 'org.apache.iceberg.spark.SparkCatalog', with Iceberg's runtime in"
                " spark.jars.packages), or a folder"
            ) from error
        if newest is None:
            raise PlanError(f"{self.label} has no snapshot yet; read it by spark.readStream, without a history")
        return known, newest


def _held(source: _Table, history: DataFrame | None) -> list[int]:
    """The snapshots of the table that a history reads."""
    if history is None:
        return []
    refuse_connect(history)
    names = {one.name for one in iceberg_reads(source.loaded(source.spark.read))}
    found = [one.snapshot_id for one in iceberg_reads(history) if one.name in names]
    check_fixed("snapshot", source.label, None not in found, "…")
    return [one for one in found if one is not None]


def _behind(source: _Table, known: Mapping[int, IcebergSnapshot], newest: int, wanted: int) -> IcebergSnapshot:
    """The snapshot behind which live begins."""
    if wanted not in known:
        raise PlanError(
            f"snapshot = {wanted!r} is not one of {source.label}, whose newest is {newest}: it was expired, or is"
            " another table's",
            code="MIXEDMODE_SEAM_BROKEN",
        )
    return known[wanted]


def _flaws(
    known: Mapping[int, IcebergSnapshot], newest: int, behind: IcebergSnapshot, skips: set[str]
) -> Iterator[str]:
    """What the table's snapshots show of those that the stream begins with."""
    between: list[IcebergSnapshot] = []
    at: IcebergSnapshot | None = known.get(newest)
    while at is not None and at.snapshot_id != behind.snapshot_id:
        between.append(at)
        at = None if at.parent_id is None else known.get(at.parent_id)
    if at is None:
        yield (
            f"snapshot {behind.snapshot_id} is not among those before the newest, {newest}: the table was rolled back"
            " behind it, or the snapshots between the two have been expired, and rows would be lost or come twice"
        )
        return
    ending = [one for one in reversed(between) if one.operation in _SKIPS and one.operation not in skips]
    for one in ending[:1]:
        yield (
            f"snapshot {one.snapshot_id} is of kind {one.operation}, and a stream of Iceberg ends there unless it skips"
            f" such snapshots (options={{'{_SKIPS[one.operation]}': True}})"
        )
