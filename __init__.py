"""mixedmode: one PySpark job, first at batch speed through its backlog, then as a stream.

    import mixedmode

    query = (
        mixedmode.read(history=spark.read.parquet("lake/flights"), live=live_flights)
        .withWatermark("ts", "1 hour")
        .groupBy("tailnum")
        .transformWithState(Rotations(), "tailnum string, legs long", "append", "eventTime")
        .writeStream.option("path", out).option("checkpointLocation", checkpoints)
        .start()
    )

The names below are the public surface.  They are loaded on first use: Spark's workers import this package for the
runtime alone, and ``mixedmode.sorter`` and ``mixedmode.state`` work without Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import (
    AddressUnavailableError,
    AggregateOverflowError,
    CheckpointError,
    CheckpointMismatchError,
    CoordinatorError,
    CorruptStateError,
    DataLossError,
    MisplacedRowsError,
    MixedModeError,
    OperatorEventError,
    OptionError,
    OutputSchemaError,
    PlanError,
    QueryError,
    SetupError,
    SorterError,
    StateSchemaError,
    StopTimeoutError,
    UnknownStateError,
    UnsupportedOperationError,
    UserCodeError,
    WideSumError,
)
from .planner.frames.spark_methods import take_rows_of_jobs

if TYPE_CHECKING:
    from . import delta, events, iceberg, kafka, metrics, testing
    from .planner.frames.readers.reading import read
    from .planner.frames.sql import sql
    from .planner.frames.state_writer import state_writer
    from .planner.inputs.environment import check_environment
    from .planner.plans.plan import ExecutionPlan
    from .runtime.metrics.events.event_reader import read_history
    from .runtime.metrics.events.run_listener import RunListener, add_listener, remove_listener
    from .runtime.metrics.progress import QueryProgress
    from .runtime.offline.state_writer import StateWriter
    from .runtime.operators.processor.blocks.key_block import KeyBlock
    from .runtime.operators.processor.stateful_processor import ProcessorHandle, StatefulProcessor
    from .runtime.protocols.operator_events.coordinator import CoordinatorContext, OperatorCoordinator, ShardGateway
    from .runtime.query import MixedQuery
    from .runtime.state_reader import StateReader, state_reader

__version__ = "0.1.0"

__all__ = [
    "AddressUnavailableError",
    "AggregateOverflowError",
    "CheckpointError",
    "CheckpointMismatchError",
    "CoordinatorContext",
    "CoordinatorError",
    "CorruptStateError",
    "DataLossError",
    "ExecutionPlan",
    "KeyBlock",
    "MisplacedRowsError",
    "MixedModeError",
    "MixedQuery",
    "OperatorCoordinator",
    "OperatorEventError",
    "OptionError",
    "OutputSchemaError",
    "PlanError",
    "ProcessorHandle",
    "QueryError",
    "QueryProgress",
    "RunListener",
    "SetupError",
    "ShardGateway",
    "SorterError",
    "StateReader",
    "StateSchemaError",
    "StateWriter",
    "StatefulProcessor",
    "StopTimeoutError",
    "UnknownStateError",
    "UnsupportedOperationError",
    "UserCodeError",
    "WideSumError",
    "add_listener",
    "check_environment",
    "delta",
    "events",
    "iceberg",
    "kafka",
    "metrics",
    "read",
    "read_history",
    "remove_listener",
    "sql",
    "state_reader",
    "state_writer",
    "testing",
]

#: Modules that are names of their own.
_MODULES = ("delta", "events", "iceberg", "kafka", "metrics", "testing")
#: Where the names that need Spark or pydantic live.
_LAZY = {
    "CoordinatorContext": ".runtime.protocols.operator_events.coordinator",
    "OperatorCoordinator": ".runtime.protocols.operator_events.coordinator",
    "ShardGateway": ".runtime.protocols.operator_events.coordinator",
    "ExecutionPlan": ".planner.plans.plan",
    "MixedQuery": ".runtime.query",
    "StateWriter": ".runtime.offline.state_writer",
    "RunListener": ".runtime.metrics.events.run_listener",
    "add_listener": ".runtime.metrics.events.run_listener",
    "KeyBlock": ".runtime.operators.processor.blocks.key_block",
    "ProcessorHandle": ".runtime.operators.processor.stateful_processor",
    "QueryProgress": ".runtime.metrics.progress",
    "StateReader": ".runtime.state_reader",
    "StatefulProcessor": ".runtime.operators.processor.stateful_processor",
    "check_environment": ".planner.inputs.environment",
    "read": ".planner.frames.readers.reading",
    "read_history": ".runtime.metrics.events.event_reader",
    "remove_listener": ".runtime.metrics.events.run_listener",
    "sql": ".planner.frames.sql",
    "state_reader": ".runtime.state_reader",
    "state_writer": ".planner.frames.state_writer",
}


take_rows_of_jobs()

if not TYPE_CHECKING:  # so that a checker of types finds names that are not there

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f".{name}", __name__)
        module = _LAZY.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
