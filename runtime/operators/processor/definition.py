"""Describes the keyed stage of a ``StatefulProcessor``: its schemas, its hooks and its state variables."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, TimerValues
from pyspark.sql.types import StructType

from ....errors import MixedModeError, UserCodeError
from ...catalyst.types.arrow_types import arrow_schema
from ...catalyst.types.ddl import parse_ddl
from ...jvm.user_frames import UserFrames
from ...protocols.rows_per_call import RowsPerCall
from ...support.code_fingerprint import code_fingerprint
from ..contract import EpochSpec, KeyedOperator
from ..emission_watermark import EMITTED_COLUMN
from ..keyed.keyed_input import KeyedInput
from ..keyed.keyed_rows import KIND_COLUMN
from .initial_state import InitialState
from .processor_handle import DeclaringHandle
from .rows.row_form import Form, RowsForm
from .rows.shown_times import shown_watermark_ms

TimeMode = Literal["none", "processingTime", "eventTime"]

#: Methods without parameters that a processor may define: called once per shard, when all input has ended and all
#: timers have fired.  As every epoch they have an instance of their own, whose ``init`` has been called: what handlers
#: have set on it in earlier epochs is not there, nor is there a key whose state could be used.
END_HOOKS = ("endInput", "finish")

#: A processor that defines it gets its rows by it, and not by ``handleInputRows``.
BLOCK_HANDLER = "handleArrowRows"


def _takes_nothing(method: Any) -> bool:
    """True for a hook; a method of that name with parameters is the processor's own affair."""
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind()
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class ProcessorHooks:
    """The optional methods that a processor has."""

    at_end: tuple[str, ...]
    #: Whether it gets its rows as blocks of keys.
    takes_blocks: bool
    keeps_own_state: bool
    restores_own_state: bool

    @classmethod
    def of(cls, processor: Any) -> ProcessorHooks:
        """Those of a processor."""
        return cls(
            at_end=tuple(hook for hook in END_HOOKS if _takes_nothing(getattr(processor, hook, None))),
            takes_blocks=callable(getattr(processor, BLOCK_HANDLER, None)),
            keeps_own_state=_takes_nothing(getattr(processor, "snapshotShard", None)),
            restores_own_state=callable(getattr(processor, "restoreShard", None)),
        )


@dataclass(frozen=True)
class CallingConvention:
    """How handlers get rows and give them; state, timers and everything else do not depend on it."""

    form: Form = field(default_factory=RowsForm)
    #: How the rows of a key are cut into calls in a sorted pass; None: not at all, or by event time.
    rows_per_call: RowsPerCall | None = None


@dataclass(frozen=True)
class EventLimits:
    """What a processor may send to its coordinator."""

    #: Whether there is one.
    has_coordinator: bool = False
    #: The most that one event, or a shard's own state, may take.
    max_bytes: int = 1024 * 1024


class ProcessorStage(KeyedOperator):
    """The keyed stage of a processor, without what it does.

    Building it runs ``init`` of a copy of the processor once on the driver, with a handle that records the state
    variables, as stock Spark does before its first batch.

    Args:
        processor: the user's processor; it is pickled to the tasks and must not hold a Spark session.
        uid: id under which the state is stored.
        rows: the processor's input.
        output_schema: schema of the rows that the processor yields.
        time_mode: ``"none"``, ``"processingTime"`` or ``"eventTime"``.
        initial: rows to start from; None: there are none.
        events: what it may send to its coordinator.
        calls: how handlers get rows and give them.
        output_mode: as the user has given it; None: nobody needs to know.
    """

    kind = "transformWithState"
    processor_name: str
    #: How far the watermark is past a timer's time, at the least, when the timer's call sees it.
    past_timer_ms = 0

    def __init__(
        self,
        processor: StatefulProcessor,
        *,
        uid: str,
        rows: KeyedInput,
        output_schema: StructType,
        time_mode: TimeMode,
        initial: InitialState | None = None,
        events: EventLimits = EventLimits(),
        calls: CallingConvention = CallingConvention(),
        output_mode: str | None = None,
    ) -> None:
        self.form = calls.form
        self.rows_per_call = calls.rows_per_call
        self.output_mode = output_mode
        self.uid = uid
        self.key_columns = rows.key_columns
        self.key_schema = arrow_schema(rows.key_schema)
        self.input_schema = rows.schema
        self.output_schema = output_schema
        self.time_mode = time_mode
        self.event_time = rows.event_time
        self.uses_event_time = time_mode == "eventTime"
        self.uses_processing_time = time_mode == "processingTime"
        self.has_timers = self.emits_out_of_order = self.uses_event_time
        self.hooks = ProcessorHooks.of(processor)
        self.has_end_hooks = bool(self.hooks.at_end)
        self.takes_events = callable(getattr(processor, "handleEvent", None))
        self.has_coordinator = events.has_coordinator
        self.event_max_bytes = events.max_bytes
        kind = (KIND_COLUMN,) if initial is not None else ()
        #: What the orderly stream's watermark follows: event times, or, behind another stage, when rows were emitted.
        self.clock_column = EMITTED_COLUMN if rows.follows_a_stage and self.has_timers else rows.event_time
        order = (*kind, self.clock_column, self.form.side_column, rows.event_time)
        self.keeps_arrival = not rows.follows_a_stage
        self.sort_columns = tuple(dict.fromkeys(column for column in order if column is not None))
        self.initial = initial
        self._pickled = cloudpickle.dumps(processor)
        self.processor_name = type(processor).__name__
        self._code = code_fingerprint(processor)
        declaring = DeclaringHandle(time_mode, parse_ddl)
        self._declare(declaring)
        self.registry = declaring.registry

    def _declare(self, handle: DeclaringHandle) -> None:
        """Run ``init`` and ``close`` of a copy of the processor, here in the driver."""
        copy, method = cloudpickle.loads(self._pickled), "init"
        try:
            copy.init(handle)
            handle.seal()
            method = "close"
            copy.close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() there is not meant for the driver
            context = f"processor {self.processor_name} of stage {self.uid!r}, {method}, which start() calls once"
            frames = UserFrames.since(error.__traceback__)
            if isinstance(error, MixedModeError):
                raise type(error)(frames.located(error, context), code=error.code) from error
            raise UserCodeError(frames.description(error, context)) from error

    @property
    def initial_schema(self) -> StructType | None:
        """Columns of the rows to start from; None: there are none."""
        return None if self.initial is None else self.initial.schema

    def order_in(self, epoch: EpochSpec) -> tuple[str, ...]:
        """Rows that are handed over together come side by side: of one key, or of one time of its clock."""
        if self.form.side_column is None or epoch.in_order is not None:
            return self.sort_columns
        first = [column for column in (KIND_COLUMN, self.form.side_column) if column in self.sort_columns]
        return tuple(dict.fromkeys([*first, *self.sort_columns]))

    @property
    def spoken(self) -> str:
        """The user's code, for errors."""
        return f"processor {self.processor_name}"

    def code_of(self, processor: Any, handler: str) -> Any:
        """The user's function that a handler of the processor is; None: it has no such handler."""
        return getattr(type(processor), handler, None)

    def times(self, processing_ms: int, watermark_ms: int) -> TimerValues:
        """The times as PySpark reports them: both -1 when the time mode is none.

        Args:
            processing_ms: of the epoch.
            watermark_ms: the engine's.
        """
        if self.time_mode == "none":
            return TimerValues(-1, -1)
        return TimerValues(processing_ms, shown_watermark_ms(watermark_ms) if self.time_mode == "eventTime" else -1)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get everything but the initial state's data frame."""
        return {**self.__dict__, "initial": self.initial and self.initial.without_rows()}
