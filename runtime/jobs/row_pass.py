"""A sorted pass of a deduplication or of a join whose rows tasks read by themselves, with Arrow, in place of Spark.

As :mod:`.columnar_pass`: one Spark job whose tasks read Parquet files and leave runs, and the pass itself, whose tasks
make of their part of the runs what Spark would have made of the rows (:mod:`..tasks.scan.first_rows`,
:mod:`..tasks.scan.joined_rows`).  All of an epoch's rows are read so, or none: where something stands against one part,
Spark reads all, as it does where more rows have come to a few neighbouring key groups than fit into memory.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ...state.keys.key_hash import is_hashable
from ...state.keys.keygroups import ShardId
from ..catalyst.spark_plans import united
from ..catalyst.types.arrow_types import arrow_type
from ..operators.admission import can_be_late
from ..operators.arrival_order import ARRIVAL_UNKNOWN_COLUMN
from ..operators.dedup.definition import Deduplication
from ..operators.join.definition import StreamJoin
from ..scan.engines import AUTO, ENGINES, LEAST_BYTES, engine_name
from ..scan.parquet_scan import NotTakenError
from ..scan.partial_scans import file_parts
from ..scan.row_scans import RecognisedRows, recognised_rows
from ..scan.scan_cache import recall, remember
from ..scan.scan_plans import check_source, planning_settings
from ..storage.filesystem import resolve
from ..tasks.scan.first_rows import first_rows
from ..tasks.scan.joined_rows import joined_rows
from ..tasks.scan.partial_runs import Buckets
from ..tasks.scan.row_runs import RowRuns
from ..tasks.scan.row_scan import RankedPart, RowScanTask, RowsReport
from ..tasks.scan.row_work import RowWork
from .scan_pass import ScanPass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..operators.contract import EpochSpec, KeyedOperator

logger = logging.getLogger(__name__)

#: The number of a row's file has so many bits less.
_MOST_FILES = 1 << 22


def work_of(operator: KeyedOperator, frame: DataFrame, epoch: EpochSpec | None) -> RowWork:
    """What an operator makes of rows that it reads without Spark.

    Args:
        operator: the stage's.
        frame: its input.
        epoch: the epoch; None: at the start, when none is known.

    Raises:
        NotTakenError: it needs Spark's rows.
    """
    if not operator.scans_rows:
        raise NotTakenError(f"a stage of kind {getattr(operator, 'kind', type(operator).__name__)} needs Spark's rows")
    types = {field.name: arrow_type(field.dataType) for field in frame.schema.fields}
    work: RowWork
    if isinstance(operator, Deduplication):
        by_time = operator.has_timers and epoch is not None and epoch.in_order is not None
        work = first_rows(operator, types, by_time=by_time, knows=ARRIVAL_UNKNOWN_COLUMN not in frame.columns)
    else:
        assert isinstance(operator, StreamJoin)
        work = joined_rows(operator, epoch, types)
    for name in work.group_columns:
        if not is_hashable(work.type_of(0, name)):
            raise NotTakenError(f"key {name} has type {work.type_of(0, name)}")
    return work


def recognise_parts(
    operator: KeyedOperator,
    frames: Sequence[DataFrame],
    epoch: EpochSpec | None,
    engine: str,
    least_bytes: int = LEAST_BYTES,
) -> list[tuple[RowWork, RecognisedRows]]:
    """How tasks read an operator's input, part by part.

    Args:
        operator: the stage's.
        frames: the input; each may be the union of several parts.
        epoch: the epoch; None: at the start, when none is known.
        engine: ``auto``, for which one part at least has to be large, or an engine's name.
        least_bytes: what is large.

    Raises:
        NotTakenError: the input is Spark's.
    """
    if not ENGINES[engine_name(engine)].scans_rows:
        raise NotTakenError(f"{engine} aggregates rows, and does not read them for a {operator.kind}")
    parts = [part for rows in frames for part in united(rows)]
    works = [work_of(operator, part, epoch) for part in parts]
    too_small: list[NotTakenError] = []
    for part in parts:
        try:
            check_source(part, least_bytes if engine == AUTO else 0)
        except NotTakenError as error:
            check_source(part)
            too_small.append(error)
    if too_small and len(too_small) == len(parts):
        raise too_small[-1]
    if any(work != works[0] for work in works):
        raise NotTakenError("its inputs have columns of different types")
    return [(work, _scan_of(work, part)) for work, part in zip(works, parts, strict=True)]


def _scan_of(work: RowWork, frame: DataFrame) -> RecognisedRows:
    if work.side_column is None:
        found = _recognised(frame, _wanted(work, 0), work.key_columns, lists=work.has_places)
    else:
        side = _recognised(frame, (), (), (work.side_column,)).constants[work.side_column]
        found = _recognised(frame, _wanted(work, int(side)), work.key_columns, (work.side_column,))
    for uri in found.uris[:1]:  # most often they all are alike
        try:
            filesystem, path = resolve(unquote(uri))
        except (OSError, ValueError) as error:
            raise NotTakenError(f"{uri} cannot be found without Spark: {error}") from error
        found.scan.check(filesystem, path)
    return found


def _recognised(
    frame: DataFrame,
    wanted: tuple[str, ...],
    keys: tuple[str, ...],
    constants: tuple[str, ...] = (),
    lists: bool = False,
) -> RecognisedRows:
    """As :func:`..scan.row_scans.recognised_rows`, if that has not been asked a moment ago."""
    asked = (wanted, keys, constants, lists, *planning_settings(frame.sparkSession))
    found = recall(frame, asked, RecognisedRows)
    if found is None:
        found = recognised_rows(frame, wanted, keys, constants, lists=lists)
        remember(frame, asked, found)
    return found


def _wanted(work: RowWork, side: int) -> tuple[str, ...]:
    return tuple(name for name, _ in work.sides[side])


@dataclass(frozen=True)
class ReadRows:
    """What was read for the shards' tasks."""

    runs: RowRuns
    #: How many rows.
    rows: int


@dataclass(frozen=True)
class RowPass(ScanPass):
    """Reads the rows of sorted passes of deduplications and joins."""

    def read(
        self, inputs: Sequence[DataFrame], epoch: EpochSpec, shards: int, without: Collection[ShardId]
    ) -> ReadRows | None:
        """Read an epoch's rows; None: Spark has to.

        Args:
            inputs: the rows, by input.
            epoch: the epoch.
            shards: how many there are.
            without: those that nobody asks for.

        Raises:
            PlanError: Spark has to read a file, and ``execution.backlog.engine`` names another engine.
        """
        engine = self.settings.backlog_engine
        if engine == "spark" or epoch.style != "sorted" or not self.operator.scans_rows:
            return None
        if can_be_late(epoch.late_watermark_ms):
            return None
        try:
            parts = recognise_parts(self.operator, inputs, epoch, engine, self.place.least_bytes)
        except NotTakenError as error:
            self.leave_to_spark(error)
            return None
        try:
            self.check_not_stopped(parts)
            return self._read(parts, epoch, Buckets(shards, self.max_parallelism), tuple(without))
        except NotTakenError as error:
            self.leave_to_spark(error, parts)
            return None

    def _read(
        self,
        parts: Sequence[tuple[RowWork, RecognisedRows]],
        epoch: EpochSpec,
        buckets: Buckets,
        without: tuple[ShardId, ...],
    ) -> ReadRows:
        work = parts[0][0]
        ranks = _ranks([scan for _, scan in parts]) if work.has_places else {}
        self.discard()
        self.filesystem.create_dir(self.place.folder, recursive=True)
        paths: list[list[str]] = [[] for _ in work.sides]
        rows = 0
        tasks = []
        for number, (_, scan) in enumerate(parts):
            side = 0 if work.side_column is None else int(scan.constants[work.side_column])
            name = f"e{epoch.epoch:08d}-{self.run_id}-{number}"
            tasks += self._tasks(work, scan, side, name, buckets, without, ranks)
        whole_bytes = sum(task.size_bytes for task in tasks)
        for task in tasks:
            counted = replace(task, whole_bytes=whole_bytes)
            for report in self.reports(counted, len(task.parts), RowsReport.from_bytes):
                paths[task.side] += report.runs
                rows += report.rows
        runs = RowRuns(self.filesystem, tuple(map(tuple, paths)), work, buckets, self.settings.sorter_memory_bytes)
        largest = runs.largest_bucket_bytes()
        if largest > self.settings.sorter_memory_bytes:
            raise NotTakenError(
                f"{largest / 2**20:.0f} MiB of rows belong together, and sorter.memory is"
                f" {self.settings.sorter_memory_bytes / 2**20:.0f} MiB"
            )
        return ReadRows(runs, rows)

    def _tasks(
        self,
        work: RowWork,
        scan: RecognisedRows,
        side: int,
        name: str,
        buckets: Buckets,
        without: tuple[ShardId, ...],
        ranks: dict[str, int],
    ) -> list[RowScanTask]:
        """What reads one part's files; nothing where there are none."""
        source, parts = file_parts(scan.uris, self.spark.sparkContext.defaultParallelism)
        if not parts:
            return []
        paths = {resolve(unquote(uri))[1]: ranks.get(unquote(uri)) for uri in scan.uris}
        scanned = RowScanTask(
            scan=replace(scan.scan, places=_PLACES) if work.has_places else scan.scan,
            condition=scan.condition,
            columns=scan.columns,
            work=work,
            side=side,
            source=source,
            parts=tuple(_in_order([RankedPart(part, paths[part.path]) for part in some]) for some in parts),
            target=self.filesystem,
            folder=self.place.folder,
            name=name,
            buckets=buckets,
            without=without,
            memory_bytes=self.settings.sorter_memory_bytes,
            progress_folder=self.progress_folder,
        )
        return [scanned]


#: The column with the numbers of rows in their files.
_PLACES = "__place_in_file"


def _in_order(parts: Sequence[RankedPart]) -> tuple[RankedPart, ...]:
    """Parts of files in the order in which their rows have arrived."""
    return tuple(sorted(parts, key=lambda one: (one.rank or 0, one.part.path, one.part.start)))


def _ranks(scans: Sequence[RecognisedRows]) -> dict[str, int]:
    """Where each file stands among all, by URI without escapes."""
    known = [(file, uri) for scan in scans for uri, file in scan.files.items()]
    if len({uri for _, uri in known}) < len(known) or len(known) > _MOST_FILES:
        raise NotTakenError("a file is read twice, and its rows may come first or second")
    return {uri: rank for rank, (_, uri) in enumerate(sorted(known))}
