"""A keyed stage whose operator is a PySpark ``StatefulProcessor``, as the driver knows it and the tasks get it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from ...connectors.sources.history import event_time_us
from ...platform.arrow_types import arrow_schema
from ...platform.clean_up import take_all
from ...platform.code_fingerprint import code_fingerprint
from ...platform.columns import quoted
from ..contract import EpochSpec, KeyedOperator, ShardContext
from .handle import DeclaringHandle
from .run import INITIAL_STATE_COLUMN, KIND_COLUMN, ProcessorRun
from .user_failure import explain_failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TimeMode = Literal["none", "processingTime", "eventTime"]

#: Methods without parameters that a processor may define: called once per shard, when all input has ended and all
#: timers have fired.  As every epoch they have an instance of their own, whose ``init`` has been called: what handlers
#: have set on it in earlier epochs is not there, nor is there a key whose state could be used.
END_HOOKS = ("endInput", "finish")


class ProcessorOperator(KeyedOperator):
    """A keyed stage whose operator is a user's ``StatefulProcessor``.

    Building it runs ``init`` of a copy of the processor once on the driver, with a handle that records the state
    variables, as stock Spark does before its first batch.

    Args:
        processor: the user's processor; it is pickled to the tasks and must not hold a Spark session.
        uid: id under which the state is stored.
        key_columns: columns of the frame that hold the key, in order.
        input_schema: the columns that the processor's rows have.
        key_schema: schema of the key tuple, in the order of ``key_columns``.
        output_schema: schema of the rows that the processor yields.
        time_mode: ``"none"``, ``"processingTime"`` or ``"eventTime"``.
        event_time: the watermarked column, if there is one.
        initial_state: rows grouped by the same key columns (by name, first) to start from.
        has_coordinator: whether there is somebody to send events to.
        event_max_bytes: the most that one event, or a shard's own state, may take.
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        *,
        uid: str,
        key_columns: tuple[str, ...],
        input_schema: StructType,
        key_schema: StructType,
        output_schema: StructType,
        time_mode: TimeMode,
        event_time: str | None,
        initial_state: DataFrame | None = None,
        initial_state_key: tuple[str, ...] = (),
        has_coordinator: bool = False,
        event_max_bytes: int = 1024 * 1024,
    ) -> None:
        self.uid = uid
        self.key_columns = key_columns
        self.key_schema = arrow_schema(key_schema)
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.time_mode = time_mode
        self.event_time = event_time
        self.uses_event_time = time_mode == "eventTime"
        self.uses_processing_time = time_mode == "processingTime"
        self.has_timers = self.uses_event_time
        self.end_hooks = tuple(hook for hook in END_HOOKS if _takes_nothing(getattr(processor, hook, None)))
        self.has_end_hooks = bool(self.end_hooks)
        self.takes_events = callable(getattr(processor, "handleEvent", None))
        self.keeps_own_state = _takes_nothing(getattr(processor, "snapshotShard", None))
        self.restores_own_state = callable(getattr(processor, "restoreShard", None))
        self.has_coordinator = has_coordinator
        self.event_max_bytes = event_max_bytes
        kind = (KIND_COLUMN,) if initial_state is not None else ()
        self.sort_columns = (*kind, *((event_time,) if event_time else ()))
        self._initial_state = initial_state
        self._initial_state_key = initial_state_key or key_columns
        self.initial_schema = None if initial_state is None else initial_state.schema
        self._pickled = cloudpickle.dumps(processor)
        self.processor_name = type(processor).__name__
        self._code = code_fingerprint(processor)
        declaring = DeclaringHandle(time_mode, lambda ddl: cast("StructType", StructType.fromDDL(ddl)))
        copy = cloudpickle.loads(self._pickled)
        copy.init(declaring)
        copy.close()
        self.registry = declaring.registry

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get everything but the initial state's data frame."""
        return {**self.__dict__, "_initial_state": None}

    def fingerprint(self) -> str | None:
        """The user's sources, the schemas and the time mode; None for code without source files or initial state."""
        if self._code is None or self.initial_schema is not None:
            return None
        schemas = [self.input_schema.json(), self.output_schema.json(), self.registry.to_json()]
        return json.dumps([self._code, self.describe(), schemas], sort_keys=True)

    def describe(self) -> dict[str, Any]:
        """Identity and facts of the stage for explain() and for the check of a checkpoint against the job."""
        return {
            "operator": "transformWithState",
            "uid": self.uid,
            "processor": self.processor_name,
            "key": [f"{field.name} {field.type}" for field in self.key_schema],
            "time mode": self.time_mode,
        }

    def prepare(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame:
        """Input rows as they are; in the very first epoch with the rows of the initial state before them."""
        event_time = [] if self.event_time is None else [self.event_time]  # it need not be among the user's columns
        names = list(dict.fromkeys([*self.key_columns, *self.input_schema.fieldNames(), *event_time]))
        rows = frame if frame.columns == names else frame.select(*map(quoted, names))
        if self._initial_state is None:
            return rows
        packed = F.struct(*map(quoted, self._initial_state.columns))
        nothing = F.lit(None).cast(self._initial_state.schema)
        if not epoch.first:
            return rows.select(F.lit(1).alias(KIND_COLUMN), "*", nothing.alias(INITIAL_STATE_COLUMN))
        columns = dict(zip(self.key_columns, self._initial_state_key, strict=True))
        types = {field.name: field.dataType for field in rows.schema.fields}
        initial = self._initial_state.select(
            F.lit(0).alias(KIND_COLUMN),
            *[
                (F.col(quoted(columns[name])) if name in columns else F.lit(None)).cast(types[name]).alias(name)
                for name in names
            ],
            packed.alias(INITIAL_STATE_COLUMN),
        )
        return initial.unionByName(rows.select(F.lit(1).alias(KIND_COLUMN), "*", nothing.alias(INITIAL_STATE_COLUMN)))

    def late_rows(self, frame: DataFrame, epoch: EpochSpec) -> DataFrame | None:
        """The input rows whose event time is before what has fired."""
        if self.event_time is None or not self.uses_event_time:
            return None
        return frame.where(event_time_us(frame, self.event_time) < epoch.late_watermark_ms * 1000)

    def run(self, context: ShardContext, rows: Iterator[pa.RecordBatch]) -> None:
        """Process one shard of one epoch; see :mod:`.processor_run` for the two styles."""
        processor = cloudpickle.loads(self._pickled)
        run = ProcessorRun(self, processor, context)
        try:
            run.execute(rows)
        except BaseException as error:
            take_all(processor.close)  # what it raises now is not why
            if isinstance(error, Exception) and (told := explain_failure(error, self, run)) is not error:
                raise told from error
            raise
        processor.close()


def _takes_nothing(method: Any) -> bool:
    """True for a hook; a method of that name with parameters is the processor's own affair."""
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind()
    except (TypeError, ValueError):
        return False
    return True
