"""A sorted pass whose rows tasks scan and aggregate by themselves, with Arrow, in place of Spark's engine.

Two Spark jobs: one whose tasks read Parquet files and leave runs of partial aggregates (:mod:`.partial_scan`), and the
pass itself, whose tasks merge their parts of the runs.  Spark schedules and retries both; no row goes through its JVM.
Parts of the input that are not known to give the same (:mod:`..platform.scan_plans`) are Spark's, and meet the runs in
the shards' tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame

from ...errors import PlanError
from ...state.key_hash import is_hashable
from ..operators.processor.keyed_rows import KEY_GROUP_COLUMN
from ..platform.arrow_functions import mapped_in_arrow
from ..platform.arrow_types import arrow_schema
from ..platform.filesystem import delete_quietly
from ..platform.parquet_scan import NotTakenError
from ..platform.partial_calls import PartialCall, Sums
from ..platform.partition_jobs import collected_by_partition
from ..platform.scan_plans import PartialScan, RecognisedScan, check_first_file, check_source, file_parts, recognised
from ..platform.spark_plans import united
from .partial_runs import Buckets, PartialRuns
from .partial_scan import PartialScanTask, ScanReport
from .report import REPORT_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..operators.contract import EpochSpec, KeyedOperator
    from ..spec import Settings

logger = logging.getLogger(__name__)

#: Less than this Spark reads as fast.
_LEAST_BYTES = 32 * 1024 * 1024


def recognise(operator: KeyedOperator, frame: DataFrame, epoch: EpochSpec | None, engine: str) -> RecognisedScan:
    """What an operator would have tasks scan of a frame.

    Args:
        operator: the stage's.
        frame: its input.
        epoch: the epoch; None: at the start, when none is known.
        engine: ``auto`` or ``arrow``.

    Raises:
        NotTakenError: the frame is Spark's.
    """
    if not operator.scans_files:
        raise NotTakenError(f"a stage of kind {getattr(operator, 'kind', type(operator).__name__)} needs Spark's rows")
    check_source(frame, 0 if engine == "arrow" else _LEAST_BYTES)
    prepared = operator.prepare(frame, epoch)  # type: ignore[arg-type]
    found = recognised(prepared)
    schema = arrow_schema(prepared.schema)
    for name in operator.key_group_columns:
        if not is_hashable(schema.field(name).type):
            raise NotTakenError(f"key {name} has type {schema.field(name).type}")
    for call in found.partials.calls:
        if schema.field(call.name).type != call.type:
            raise NotTakenError(f"Spark has {schema.field(call.name).type} for {call.function} of {call.column}")
    check_first_file(found)
    return found


@dataclass(frozen=True)
class ScannedRows:
    """What the scan has left for the shards' tasks."""

    runs: PartialRuns
    #: What Spark has to read; None: nothing.
    rest: DataFrame | None


@dataclass(frozen=True)
class ColumnarPass:
    """Runs the scan of sorted passes.

    Args:
        spark: the session.
        operator: the stage's.
        settings: the job's.
        filesystem: where runs go.
        folder: their folder there, of this stage alone.
        max_parallelism: number of key groups.
        run_id: of this run.
    """

    spark: SparkSession
    operator: KeyedOperator
    settings: Settings
    filesystem: fs.FileSystem
    folder: str
    max_parallelism: int
    run_id: str

    def scanned(
        self, inputs: Sequence[DataFrame], epoch: EpochSpec, shards: int, without: Collection[int]
    ) -> ScannedRows | None:
        """Scan what can be of an epoch's rows; None: nothing.

        Args:
            inputs: the rows, by input.
            epoch: the epoch.
            shards: how many there are.
            without: those that nobody asks for.

        Raises:
            PlanError: a file is not what only Arrow may read (``execution.backlog.engine = arrow``).
        """
        engine = self.settings.backlog_engine
        if engine == "spark" or epoch.style != "sorted" or not self.operator.scans_files:
            return None
        parts = [part for rows in inputs for part in united(rows)]
        taken: list[RecognisedScan] = []
        rest: list[DataFrame] = []
        for part in parts:
            try:
                taken.append(recognise(self.operator, part, epoch, engine))
            except NotTakenError as error:
                logger.info("Spark reads for stage %s: %s", self.operator.uid, error)
                rest.append(part)
        if not taken:
            return None
        try:
            runs = self._runs(taken, epoch, Buckets(shards, self.max_parallelism), tuple(without))
        except NotTakenError as error:
            self.discard()
            if engine == "arrow":
                raise PlanError(
                    f"execution.backlog.engine = arrow cannot be had for stage {self.operator.uid}: {error};"
                    " use auto, which leaves to Spark what is not known to be the same"
                ) from error
            logger.warning("Spark reads for stage %s what Arrow was to read: %s", self.operator.uid, error)
            return None
        return ScannedRows(runs, reduce(DataFrame.unionByName, rest) if rest else None)

    def discard(self) -> None:
        """Remove the runs, also those of attempts that have lost."""
        delete_quietly(self.filesystem, self.folder)

    def _runs(
        self, taken: Sequence[RecognisedScan], epoch: EpochSpec, buckets: Buckets, without: tuple[int, ...]
    ) -> PartialRuns:
        self.discard()
        self.filesystem.create_dir(self.folder, recursive=True)
        tasks, sums = self.spark.sparkContext.defaultParallelism, Sums()
        memory_bytes = self.settings.sorter_memory_bytes
        schema, paths = self._schema(taken[0].partials), list[str]()
        for number, found in enumerate(taken):
            source, parts = file_parts(found.uris, tasks)
            if not parts:
                continue
            task = PartialScanTask(
                partials=found.partials,
                source=source,
                parts=tuple(map(tuple, parts)),
                target=self.filesystem,
                folder=self.folder,
                name=f"e{epoch.epoch:08d}-{self.run_id}-{number}",
                schema=schema,
                group_columns=self.operator.key_group_columns,
                buckets=buckets,
                without=without,
                memory_bytes=memory_bytes,
            )
            for report in self._reports(task):
                if report.not_taken is not None:
                    raise NotTakenError(report.not_taken)
                paths += report.runs
                calls = {call.name: call for call in found.partials.calls}
                for name, bound in report.bounds:
                    if pa.types.is_floating(calls[name].type):
                        sums.add(calls[name], bound)
        return PartialRuns(
            self.filesystem,
            tuple(paths),
            schema,
            buckets,
            self.operator.key_columns,
            taken[0].partials.calls,
            memory_bytes,
            self.settings.sorter_spill_dir,
            self.settings.state_local_dir,
        )

    def _reports(self, task: PartialScanTask) -> list[ScanReport]:
        places = mapped_in_arrow(self.spark.range(0, len(task.parts), 1, len(task.parts)), task, REPORT_SCHEMA)
        at_once = self.settings.backlog_max_cores
        if at_once is None:
            rows = places.collect()
        else:
            rows = collected_by_partition(places, at_once, lambda: False, lambda: None)
        return [ScanReport.from_bytes(bytes(row[0])) for row in rows]

    def _schema(self, partials: PartialScan) -> pa.Schema:
        types = {field.name: field.type for field in self.operator.key_schema}
        fields = [pa.field(KEY_GROUP_COLUMN, pa.int32())]
        fields += [pa.field(key.name, types[key.name]) for key in partials.keys]
        calls: Sequence[PartialCall] = partials.calls
        return pa.schema([*fields, *[pa.field(call.name, call.type) for call in calls]])
