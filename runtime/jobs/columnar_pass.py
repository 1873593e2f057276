"""A sorted pass whose rows tasks scan and aggregate by themselves, with Arrow, in place of Spark's engine.

Two Spark jobs: one whose tasks read Parquet files and leave runs of partial aggregates
(:mod:`..tasks.scan.partial_scan`), and the pass itself, whose tasks merge their parts of the runs.  Spark schedules and
retries both; no row goes through its JVM. Parts of the input that are not known to give the same
(:mod:`..scan.scan_plans`) are Spark's, and meet the runs in the shards' tasks.

What waits at the live source comes as a micro-batch.  Where a history is scanned, and the micro-batch is of files that
can be, these are scanned as well, in a job of their own: nobody has promised that they can be, so whatever stands
against it leaves them to Spark, whatever ``execution.backlog.engine`` says.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from ...state.keys.key_hash import is_hashable
from ...state.keys.keygroups import ShardId
from ..catalyst.prepared.micro_batch import plan_behind
from ..catalyst.spark_plans import analyzed, leaves, united
from ..catalyst.types.arrow_types import arrow_schema
from ..operators.aggregate.operator import AggregateOperator
from ..operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ..scan.engines import AUTO, ENGINES, LEAST_BYTES, engine_name
from ..scan.parquet_scan import NotTakenError
from ..scan.partial_calls import PartialCall, Sums
from ..scan.partial_scans import PartialScan, RecognisedScan, file_parts
from ..scan.scan_cache import recall, remember
from ..scan.scan_plans import check_source, planning_settings, recognised
from ..tasks.scan.partial_runs import Buckets, PartialRuns
from ..tasks.scan.partial_scan import PartialScanTask, ScanReport
from .scan_pass import ScanPass

if TYPE_CHECKING:
    from ..operators.contract import EpochSpec, KeyedOperator

logger = logging.getLogger(__name__)

#: Results of a set that do not depend on the order of its values.
_WITHOUT_ORDER = ("size", "sum_distinct")


def recognise(
    operator: KeyedOperator,
    frame: DataFrame,
    epoch: EpochSpec | None,
    engine: str,
    float_sums: str = "fast",
    least_bytes: int = LEAST_BYTES,
) -> RecognisedScan:
    """What an operator would have tasks scan of a frame.

    Args:
        operator: the stage's.
        frame: its input.
        epoch: the epoch; None: at the start, when none is known.
        engine: ``auto``, for which files have to be large, or an engine's name.
        float_sums: ``fast`` or ``spark``.
        least_bytes: what is large.

    Raises:
        NotTakenError: the frame is Spark's.
    """
    if not operator.scans_files:
        raise NotTakenError(f"a stage of kind {getattr(operator, 'kind', type(operator).__name__)} needs Spark's rows")
    assert isinstance(operator, AggregateOperator), "no other stage says that it scans files"
    check_source(frame, least_bytes if engine == AUTO else 0)
    overlaps = operator.window_overlaps
    settings = (engine_name(engine), float_sums, *planning_settings(frame.sparkSession), repr(overlaps))
    # What is taken of the input depends on the epoch only where rows are put in order.
    of_input = None if operator.group_columns is None or operator.group_columns.ordered else (operator, *settings)
    known = None if of_input is None else recall(frame, of_input, RecognisedScan)
    if known is not None:
        return known
    prepared = operator.prepare_scan(frame, epoch)  # type: ignore[arg-type]
    known = recall(prepared, settings, RecognisedScan)
    if known is not None:
        if of_input is not None:
            remember(frame, of_input, known)
        return known
    found = recognised(prepared, operator.column_texts, float_sums)
    found = replace(found, partials=found.partials.overlapping(overlaps))
    schema = arrow_schema(prepared.schema)
    for name in operator.key_group_columns:
        if not is_hashable(schema.field(name).type):
            raise NotTakenError(f"key {name} has type {schema.field(name).type}")
    check_calls(operator, found.partials, schema)
    ENGINES[engine_name(engine)].check(found)
    remember(prepared, settings, found)
    if of_input is not None:
        remember(frame, of_input, found)
    return found


def check_calls(operator: AggregateOperator, partials: PartialScan, schema: pa.Schema) -> None:
    """Raise unless partial aggregates are of Spark's types, and in no order that anybody sees.

    Args:
        operator: the stage's.
        partials: what is computed.
        schema: the columns that Spark makes.

    Raises:
        NotTakenError: one is not.
    """
    ordered = _ordered_columns(operator)
    for call in partials.calls:
        if call.function == "set" and call.name in ordered:
            raise NotTakenError(f"the values of {call.column} are in an order of their own")
        if schema.field(call.name).type != call.type:
            raise NotTakenError(f"Spark has {schema.field(call.name).type} for {call.function} of {call.column}")


def _ordered_columns(operator: AggregateOperator) -> set[str]:
    """Partial aggregates of which more comes out than how many values there are, or what they add up to."""
    others = (one for one in operator.partials.results if one.kind not in _WITHOUT_ORDER)
    return {operator.partials.places[place] for one in others for place in one.columns}


@dataclass(frozen=True)
class ScannedRows:
    """What the scan has left for the shards' tasks."""

    runs: PartialRuns
    #: What Spark has to read; None: nothing.
    rest: DataFrame | None


@dataclass(frozen=True)
class ColumnarPass(ScanPass):
    """Runs the scan of sorted passes of aggregates."""

    def scanned(
        self, inputs: Sequence[DataFrame], epoch: EpochSpec, shards: int, without: Collection[ShardId]
    ) -> ScannedRows | None:
        """Scan what can be of an epoch's rows; None: nothing.

        Args:
            inputs: the rows, by input.
            epoch: the epoch.
            shards: how many there are.
            without: those that nobody asks for.

        Raises:
            PlanError: Spark has to read a file, and ``execution.backlog.engine`` names another engine.
        """
        engine = self.settings.backlog_engine
        if engine == "spark" or epoch.style != "sorted" or not self.operator.scans_files:
            return None
        parts = [part for rows in inputs for part in united(rows)]
        waits = [_is_micro_batch(part) for part in parts]
        taken, rest = self._recognised(compress(parts, map(not_, waits)), epoch, engine)
        if not taken:
            return None
        # However little waits: without it Spark may have nothing to do.
        live, others = self._recognised(compress(parts, waits), epoch, engine_name(engine))
        rest += others
        scans = [found for found, _ in (*taken, *live)]
        try:
            self.check_not_stopped(scans)
            runs, missed = self._runs(taken, live, epoch, Buckets(shards, self.max_parallelism), tuple(without))
        except NotTakenError as error:
            self.leave_to_spark(error, scans)
            return None
        rest += missed
        return ScannedRows(runs, reduce(DataFrame.unionByName, rest) if rest else None)

    def _recognised(
        self, parts: Iterable[DataFrame], epoch: EpochSpec, engine: str
    ) -> tuple[list[tuple[RecognisedScan, DataFrame]], list[DataFrame]]:
        """Parts that can be scanned, and those that are Spark's."""
        taken: list[tuple[RecognisedScan, DataFrame]] = []
        rest: list[DataFrame] = []
        for part in parts:
            try:
                sums, least_bytes = self.settings.backlog_float_sums, self.place.least_bytes
                taken.append((recognise(self.operator, part, epoch, engine, sums, least_bytes), part))
            except NotTakenError as error:
                logger.info("Spark reads for stage %s: %s", self.operator.uid, error)
                rest.append(part)
        return taken, rest

    def _runs(
        self,
        taken: Sequence[tuple[RecognisedScan, DataFrame]],
        live: Sequence[tuple[RecognisedScan, DataFrame]],
        epoch: EpochSpec,
        buckets: Buckets,
        without: tuple[ShardId, ...],
    ) -> tuple[PartialRuns, list[DataFrame]]:
        """The runs of what is scanned, and those parts of the live input that Spark has to read after all."""
        self.discard()
        self.filesystem.create_dir(self.place.folder, recursive=True)
        first = taken[0][0].partials
        schema, paths, sums = self._schema(first), list[str](), Sums()
        missed: list[DataFrame] = []

        def is_missed(number: int, part: DataFrame, error: NotTakenError) -> None:
            if number < len(taken):
                raise error
            logger.info("Spark reads the waiting live rows of stage %s: %s", self.operator.uid, error)
            missed.append(part)

        # All before the first runs: how far the pass is goes by the bytes of all.
        tasks: list[tuple[int, DataFrame, PartialScanTask]] = []
        for number, (found, part) in enumerate([*taken, *live]):
            try:
                task = self._task(found, f"e{epoch.epoch:08d}-{self.run_id}-{number}", schema, buckets, without)
                tasks.append((number, part, task))
            except NotTakenError as error:
                is_missed(number, part, error)
        whole_bytes = sum(task.size_bytes for _, _, task in tasks)
        for number, part, task in tasks:
            try:
                paths += self._scanned(replace(task, whole_bytes=whole_bytes), sums)
            except NotTakenError as error:
                is_missed(number, part, error)
        runs = PartialRuns(
            self.filesystem,
            tuple(paths),
            schema,
            buckets,
            self.operator.key_columns,
            first.calls,
            self.settings.sorter_memory_bytes,
            self.settings.sorter_spill_dir,
            self.settings.state_local_dir,
        )
        return runs, missed

    def _task(
        self, found: RecognisedScan, name: str, schema: pa.Schema, buckets: Buckets, without: tuple[ShardId, ...]
    ) -> PartialScanTask:
        """What tasks do with one part's files.

        Args:
            found: how they are scanned.
            name: begins the names of the runs.
            schema: of a run.
            buckets: how runs are dealt.
            without: shards that nobody asks for.

        Raises:
            NotTakenError: Spark has to read the files.
        """
        if self._schema(found.partials) != schema:
            raise NotTakenError("its columns have other types than those of what was scanned before")
        source, parts = file_parts(found.uris, self.spark.sparkContext.defaultParallelism, found.constants)
        return PartialScanTask(
            partials=found.partials,
            source=source,
            parts=tuple(map(tuple, parts)),
            target=self.filesystem,
            folder=self.place.folder,
            name=name,
            schema=schema,
            group_columns=self.operator.key_group_columns,
            buckets=buckets,
            without=without,
            memory_bytes=self.settings.sorter_memory_bytes,
            progress_folder=self.progress_folder,
            engine=engine_name(self.settings.backlog_engine),
        )

    def _scanned(self, task: PartialScanTask, sums: Sums) -> list[str]:
        """The runs of one part's files.

        Args:
            task: what scans them.
            sums: of all parts.

        Raises:
            NotTakenError: Spark has to read the files.
        """
        if not task.parts:
            return []
        reports = self.reports(task, len(task.parts), ScanReport.from_bytes)
        calls = {call.name: call for call in task.partials.calls}
        for report in reports:
            for column, bound in report.bounds:
                if pa.types.is_floating(calls[column].type):
                    sums.add(calls[column], bound)
        return [path for report in reports for path in report.runs]

    def _schema(self, partials: PartialScan) -> pa.Schema:
        types = {field.name: field.type for field in self.operator.key_schema}
        fields = [pa.field(KEY_GROUP_COLUMN, pa.int32())]
        fields += [pa.field(key.name, types[key.name]) for key in partials.keys]
        calls: Sequence[PartialCall] = partials.calls
        return pa.schema([*fields, *[pa.field(call.name, call.type) for call in calls]])


def _is_micro_batch(rows: DataFrame) -> bool:
    """Whether rows are of the micro-batch that is being handed over."""
    return any(plan_behind(leaf) is not None for leaf in leaves(analyzed(rows)))
