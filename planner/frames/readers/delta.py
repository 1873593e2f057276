"""``mixedmode.delta``: a Delta table as the live side of a job, right behind a version that its history has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ....errors import PlanError
from ....runtime.connectors.sources.live_sources import FIRST_OFFSET
from ....runtime.jvm.spark_errors import spark_says
from ....runtime.spark_io.connector_packages import check_connector, package_hint
from ....runtime.spark_io.spark_delta import DeltaRead, delta_reads, kept_commits, removing_commits
from ....runtime.storage.filesystem import path_text
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

#: Options that say which versions are read; :func:`read` says that itself.
_OURS = ("path", "startingversion", "startingtimestamp", "versionasof", "timestampasof", FIRST_OFFSET)
_WHY_OURS = (
    "says which versions are read, which version and history do; leave it out, or read the table by spark.readStream"
    " and give it to mixedmode.read()"
)
#: Options with which a stream goes on behind a commit that takes rows away.
_GOES_ON = ("skipchangecommits", "ignorechanges", "ignoredeletes")
_HINT = "Give a later version, or begin all the same with delta.read(…, tolerate_gaps=True)"


def read(
    spark: SparkSession,
    path: str | os.PathLike[str] | None = None,
    *,
    table: str | None = None,
    version: int | None = None,
    parse: Parse | None = None,
    history: DataFrame | None = None,
    tolerate_gaps: bool = False,
    options: Mapping[str, Any] | None = None,
) -> MixedFrame:
    """Describes a job over a Delta table: up to a version as its backlog, and from the next one as its stream.

        from mixedmode import delta

        flights = delta.read(spark, "lake/flights")

    The history is the table at ``version``, read as a batch.  The stream begins with the next commit, whether or not it
    exists yet.  You can give another history that holds what the table had up to ``version``, such as a copy.

    ``start()`` raises an error if the log shows that commits after the version are gone or remove rows (a stream of
    Delta fails there).  A restarted job continues from the position of its checkpoint.

    Args:
        spark: a session with Delta's package, extension and catalog.
        path: the folder of the table.
        table: instead of the folder, the name in the catalog.
        version: the last version of the history; None: the newest, or the one that ``history`` reads.  A job in
            runtime-mode streaming that is restarted within its history must get the version that it began with.
        parse: makes rows of the table's rows; None: no change.
        history: a batch DataFrame with the columns of those rows; None: the table itself.
        tolerate_gaps: log a warning instead of an error if the log shows that commits are lost.
        options: further options of Delta's stream: ``maxFilesPerTrigger``, ``skipChangeCommits``…

    Raises:
        PlanError: the table or version does not exist, or does not fit the history.
        OptionError: an option says which versions are read.
        SetupError: the session lacks Delta's package.
    """
    refuse_connect(spark)
    source = _Table.of(spark, path, table)
    check_connector(spark, "delta")
    given, rows_of = source_options(options, _OURS, _WHY_OURS), parse or as_they_are
    newest = source.newest()
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
        raise PlanError(f"version must be the number of a version of the table, 0 or more, got {version!r}")
    if version is not None and version > newest.version:
        raise PlanError(
            f"version = {version} is not there: the newest of {source.label} is {newest.version}",
            code="MIXEDMODE_SEAM_BROKEN",
        )
    held = []
    if history is not None:
        refuse_connect(history)
        held = [one for one in delta_reads(history) if one.table_id == newest.table_id]
        for one in held:
            check_fixed("version", source.label, one.is_fixed, one.version)
        version = history_end("version", source.label, [one.version for one in held], version)
    behind = replace(newest, version=newest.version if version is None else version)
    bounded = parsed(rows_of, source.at(behind.version)) if history is None else history
    text = history_text("version", source.label, behind.version, history, bool(held))
    reader = spark.readStream.format("delta").options(**given).option(FIRST_OFFSET, behind.next_offset)
    live = parsed(rows_of, source.loaded(reader))
    text += f", and live from version {behind.version + 1} on"
    flaws = _flaws(spark, behind, newest, given)
    return with_seam(read_frames(bounded, live), Seam(text, tuple(flaws), tolerate_gaps, _HINT))


@dataclass(frozen=True)
class _Table:
    """The table, by its folder or by its name."""

    spark: SparkSession
    path: str | None
    name: str | None

    @classmethod
    def of(cls, spark: SparkSession, path: Any, table: str | None) -> _Table:
        if (path is None) == (table is None):
            raise PlanError(f"delta.read needs either the table's path or its name, got {path!r} and table={table!r}")
        if table is not None and (not isinstance(table, str) or not table.strip()):
            raise PlanError(f"table must be the name of a table, got {table!r}")
        return cls(spark, None if path is None else path_text("path of delta.read()", path), table)

    @property
    def label(self) -> str:
        return f"the Delta table {self.path or self.name}"

    def loaded(self, reader: Any) -> DataFrame:
        """What a reader of batches or of a stream makes of it."""
        try:
            frame: DataFrame = reader.table(self.name) if self.path is None else reader.load(self.path)
            return frame
        except PySparkException as error:
            hint = package_hint("delta", self.spark.version)
            raise PlanError(
                f"{self.label} cannot be read: {spark_says(error)}; if the table is there, {hint}"
            ) from error

    def newest(self) -> DeltaRead:
        """What it is now."""
        found = delta_reads(self.loaded(self.spark.read.format("delta")))
        if len(found) != 1:
            raise PlanError(f"{self.label} cannot be read by its versions: Spark does not read it as a Delta table")
        return found[0]

    def at(self, version: int) -> DataFrame:
        return self.loaded(self.spark.read.format("delta").option("versionAsOf", version))


def _flaws(spark: SparkSession, behind: DeltaRead, newest: DeltaRead, options: Mapping[str, str]) -> list[str]:
    """What the table's log shows of the commits that the stream begins with."""
    first = behind.version + 1
    if first > newest.version:
        return []
    kept = sorted(one for one in kept_commits(spark, behind.path) if one >= first)
    if not kept or kept[0] > first:
        last = newest.version if not kept else kept[0] - 1
        return [
            f"the commits of the versions {first} to {last} are gone from the table's log: what they have added is"
            " neither in the history nor in the stream"
        ]
    if any(name.lower() in _GOES_ON and value.lower() == "true" for name, value in options.items()):
        return []
    removing = removing_commits(spark, behind.path, [one for one in kept if one <= newest.version])
    return [
        f"version {one} takes rows away or changes them, and a stream of Delta ends there unless it is told to go on"
        " (options={'skipChangeCommits': True})"
        for one in removing[:1]
    ]
