"""A keyed stage whose operator is a PySpark ``StatefulProcessor``, as the driver knows it and the tasks get it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame

from ....errors import CheckpointMismatchError
from ...catalyst.columns import quoted
from ...support.clean_up import take_all
from ..admission import is_late
from ..arrival_order import arrival_columns, with_arrival
from ..contract import EpochSpec, EvolvedOperator, ShardContext
from .definition import ProcessorStage
from .run import ProcessorRun
from .user_failure import explain_failure

if TYPE_CHECKING:
    from ....state.keys.registry import StateRegistry


class ProcessorOperator(ProcessorStage):
    """A keyed stage whose operator is a user's ``StatefulProcessor``."""

    def fingerprint(self) -> str | None:
        """The user's sources, the schemas, the time mode and how rows are shown; None for code without source files, or
        with initial state."""
        if self._code is None or self.initial is not None:
            return None
        schemas = [self.input_schema.json(), self.output_schema.json(), self.registry.to_json()]
        cut = [] if self.rows_per_call is None else [repr(self.rows_per_call)]
        return json.dumps([self._code, self.describe(), schemas, self.form.facts, *cut], sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """Identity and facts of the stage for explain() and for the check of a checkpoint against the job."""
        return {
            "operator": self.kind,
            "uid": self.uid,
            "processor": " ".join(filter(None, (self.processor_name, self.form.label))),
            "key": [f"{field.name} {field.type}" for field in self.key_schema],
            "time mode": self.time_mode,
        }

    @property
    def state_record(self) -> Any:
        """The output mode; as in Spark, a processor keeps that of its first start."""
        return None if self.output_mode is None else {"outputMode": self.output_mode}

    def evolved(
        self, stored: StateRegistry, record: Any, described: Mapping[str, Any], *, going_on: bool = True
    ) -> EvolvedOperator:
        """Take over the state of the same processor, or of another version of it."""
        was = None if record is None else record["outputMode"]
        if was is not None and self.output_mode is not None and was != self.output_mode:
            raise CheckpointMismatchError(
                f"{self.processor_name} has outputMode {self.output_mode!r}, its state was written with outputMode"
                f" {was!r}; keep that, as Spark asks for, too, or start with another checkpointLocation [upgrade:U10]"
            )
        return super().evolved(stored, record, described, going_on=going_on)

    def prepare(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """Input rows as they are; in the very first epoch with the rows of the initial state before them."""
        # They need not be among the user's columns.
        event_time = [column for column in (self.event_time, self.clock_column) if column is not None]
        if self.keeps_arrival:
            frame = with_arrival(frame)
        arrival = arrival_columns(frame.columns)
        names = list(dict.fromkeys([*self.key_columns, *self.input_schema.fieldNames(), *event_time, *arrival]))
        rows = frame if frame.columns == names else frame.select(*map(quoted, names))
        return rows if self.initial is None else self.initial.before(rows, self.key_columns, first=epoch.first)

    def prepares_by(self, epoch: EpochSpec) -> Hashable:
        """Nothing, unless there is initial state, which is read anew."""
        return () if self.initial is None else None

    def late_rows(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame | None:
        """The input rows whose event time is before what has fired."""
        if self.event_time is None or not self.uses_event_time:
            return None
        return self.form.late(frame.where(is_late(frame, self.event_time, epoch.late_watermark_ms)))

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch; see :mod:`.run` for the two styles."""
        processor = cloudpickle.loads(self._pickled)
        run = ProcessorRun(self, processor, context)
        try:
            run.execute(rows)
        except BaseException as error:
            take_all(run.close)  # what it raises now is not why
            explained = explain_failure(error, self, run)
            if explained is not error:
                raise explained from error
            raise
        run.close()
