"""The ``StatefulProcessorHandle`` that a processor's ``init`` gets: PySpark's methods over our keyed state.

There are two: the *declaring* handle runs once on the driver at plan time and learns the state variables (schemas may
be DDL text, which only a JVM can parse); the *task* handle runs in every shard task and hands out live state objects.
Rules (time modes, TTL) are those of stock ``transformWithState``
(https://spark.apache.org/docs/latest/streaming/structured-streaming-transform-with-state.html).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Literal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ....errors import PlanError, StateSchemaError, invalid_processor
from ....state.backend.keyed import KeyedState
from ....state.keys.key_space import TimerKind
from ....state.keys.registry import StateRegistry
from ...catalyst.types.arrow_types import arrow_schema
from ...jvm.user_frames import is_ours
from .rows.row_reader import row_class
from .stateful_processor import ProcessorHandle
from .task_coordinator import TaskCoordinator

Schema = StructType | str
_NO_KEY = "there is no current key; use state in handlers"
KIND_OF_MODE: dict[str, TimerKind] = {"eventTime": "event", "processingTime": "processing"}


class DeclaringHandle(ProcessorHandle):
    """Records what ``init`` declares.  State objects it returns refuse to be used: there is no key on the driver."""

    def __init__(self, time_mode: str, parse_ddl: Callable[[str], StructType]) -> None:
        self.registry = StateRegistry()
        self._time_mode = time_mode
        self._parse_ddl = parse_ddl
        self._sealed = False

    def seal(self) -> None:
        """``init`` has returned: what follows it can declare nothing, as in the tasks."""
        self._sealed = True

    def _arrow(self, name: str, parameter: str, schema: Any) -> pa.Schema:
        if not isinstance(schema, (str, StructType)):
            raise invalid_processor(
                f"{parameter} of state {name!r} is {schema!r}; give a StructType or a DDL string such as 'n long'"
            )
        try:
            return arrow_schema(self._parse_ddl(schema) if isinstance(schema, str) else schema)
        except (PySparkException, ValueError) as error:
            said = schema if isinstance(schema, str) else schema.simpleString()
            first = str(error).strip().split("\n", 1)[0]
            raise invalid_processor(f"{parameter} {said!r} of state {name!r} cannot be used: {first}") from error

    def _declare(self, name: str, kind: str, schema: Schema, user_key: Schema | None, ttl_ms: int | None) -> _Undefined:
        if self._sealed:
            raise _declared_late(name)
        if ttl_ms is not None and self._time_mode != "processingTime":
            raise invalid_processor(
                f"state {name!r} declares ttlDurationMs={ttl_ms}, but the time mode is {self._time_mode!r}; "
                "state TTL is measured in processing time and needs timeMode='processingTime'"
            )
        if ttl_ms is not None and ttl_ms <= 0:
            raise invalid_processor(f"state {name!r} declares ttlDurationMs={ttl_ms}; it must be greater than 0")
        key_schema = None if kind != "map" else self._arrow(name, "userKeySchema", user_key)
        values = self._arrow(name, "valueSchema" if kind == "map" else "schema", schema)
        self.registry.declare(name, kind, values, user_key_schema=key_schema, ttl_ms=ttl_ms)
        return _Undefined(name)

    def getValueState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> Any:
        return self._declare(stateName, "value", schema, None, ttlDurationMs)

    def getListState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> Any:
        return self._declare(stateName, "list", schema, None, ttlDurationMs)

    def getMapState(
        self, stateName: str, userKeySchema: Schema, valueSchema: Schema, ttlDurationMs: int | None = None
    ) -> Any:
        return self._declare(stateName, "map", valueSchema, userKeySchema, ttlDurationMs)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        raise self._too_early(f"registerTimer({expiryTimestampMs})")

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        raise self._too_early(f"deleteTimer({expiryTimestampMs})")

    def listTimers(self) -> Iterator[int]:
        raise self._too_early("listTimers()")

    def _too_early(self, call: str) -> PlanError:
        return _timers_without_key(call, "close" if self._sealed else "init")

    @property
    def coordinator(self) -> Any:
        """Refuses to be used, as all else here."""
        return _Undefined("coordinator", "coordinator", "there is no shard; send events in handlers")

    def deleteIfExists(self, stateName: str) -> None:
        """Take back what ``init`` has declared under the name; a stored variable that is not declared is dropped."""
        if self._sealed:
            raise _deleted_late(stateName)
        self.registry.withdraw(stateName)


class _Undefined:
    """A state variable before there is a key, or the coordinator before there is a shard."""

    def __init__(self, name: str, what: str | None = None, why: str = _NO_KEY) -> None:
        self._what = what or f"state {name!r}"
        self._why = why

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise invalid_processor(f"{self._what}.{attribute}() in init(): {self._why}")


class _Deleted:
    """A state variable that ``init`` declares and then deletes."""

    def __init__(self, kind: str, name: str) -> None:
        self._kind = kind
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise StateSchemaError(
            f"{self._kind} state {self._name!r} is not initialized: init() deletes it with deleteIfExists, so that "
            f"{attribute}() has nothing to work on; declare it after deleting it, or under another name",
            code="MIXEDMODE_PROCESSOR_INVALID",
        )


def _declared_late(name: str) -> PlanError:
    return invalid_processor(f"state {name!r} is declared in {_handler()}; declare it in init()")


def _deleted_late(name: str) -> PlanError:
    return invalid_processor(f"deleteIfExists({name!r}) in {_handler()}: state variables come and go in init() only")


def _timers_without_key(call: str, method: str) -> PlanError:
    return invalid_processor(f"{call} in {method}(): there is no current key; use timers in handlers")


def _handler() -> str:
    """The method of the processor that is running: the first of the user's frames below ours."""
    frame: FrameType | None = sys._getframe(1)
    name = "a handler"
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    while frame is not None and not is_ours(frame.f_code.co_filename):
        name, frame = frame.f_code.co_name, frame.f_back
    return name


class TaskHandle(ProcessorHandle):
    """Live state and timers of the current key of a shard task.

    What it can do follows the calls of the processor, as Spark's handle does: variables are declared and deleted in
    ``init``, timers are used after it, and in ``close`` there is nothing left to do.
    """

    def __init__(self, state: KeyedState, time_mode: str, coordinator: TaskCoordinator) -> None:
        self._state = state
        self._state.struct_class = row_class
        self._time_mode = time_mode
        self._phase: Literal["init", "handlers", "close"] = "init"
        self._coordinator = coordinator

    @property
    def coordinator(self) -> TaskCoordinator:
        return self._coordinator

    def enter(self, phase: Literal["handlers", "close"]) -> None:
        """``init`` has returned, or all handlers have."""
        self._phase = phase

    def getValueState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> Any:
        return self._state.value_state(stateName) if self._keeps(stateName) else _Deleted("value", stateName)

    def getListState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> Any:
        return self._state.list_state(stateName) if self._keeps(stateName) else _Deleted("list", stateName)

    def getMapState(
        self, stateName: str, userKeySchema: Schema, valueSchema: Schema, ttlDurationMs: int | None = None
    ) -> Any:
        return self._state.map_state(stateName) if self._keeps(stateName) else _Deleted("map", stateName)

    def _keeps(self, name: str) -> bool:
        """False for a variable that the same ``init`` goes on to delete."""
        if self._phase != "init":
            raise _declared_late(name)
        return name in self._state.registry

    def registerTimer(self, expiryTimestampMs: int) -> None:
        self._state.register_timer(self._kind("registerTimer"), expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        self._state.delete_timer(self._kind("deleteTimer"), expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        return iter(list(self._state.list_timers(self._kind("listTimers"))))

    def deleteIfExists(self, stateName: str) -> None:
        """Nothing to do in a task: the registry has the variables that ``init`` declares, and no others."""
        if self._phase != "init":
            raise _deleted_late(stateName)

    def _kind(self, method: str) -> Any:
        if self._time_mode not in KIND_OF_MODE:
            raise invalid_processor(
                f"{method}() needs timeMode 'eventTime' or 'processingTime'; the operator's is {self._time_mode!r}"
            )
        if self._phase != "handlers":
            raise _timers_without_key(f"{method}()", self._phase)
        return KIND_OF_MODE[self._time_mode]
