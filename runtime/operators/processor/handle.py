"""The ``StatefulProcessorHandle`` that a processor's ``init`` gets: PySpark's methods over our keyed state.

There are two: the *declaring* handle runs once on the driver at plan time and learns the state variables (schemas may
be DDL text, which only a JVM can parse); the *task* handle runs in every shard task and hands out live state objects.
Rules (time modes, TTL) are those of stock ``transformWithState``
(https://spark.apache.org/docs/latest/streaming/structured-streaming-transform-with-state.html).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import StructType

from ....errors import OperatorEventError, PlanError, StateSchemaError
from ....state.keyed import KeyedState
from ....state.registry import StateRegistry
from ...platform.arrow_types import arrow_schema
from ...protocols.operator_events.event_codec import encode
from ...protocols.operator_events.task_events import TaskEvents
from .row_reader import row_class

Schema = StructType | str
_NO_KEY = "there is no current key; use state in handlers"
_KIND_OF_MODE = {"eventTime": "event", "processingTime": "processing"}


class DeclaringHandle(StatefulProcessorHandle):
    """Records what ``init`` declares.  State objects it returns refuse to be used: there is no key on the driver."""

    def __init__(self, time_mode: str, parse_ddl: Callable[[str], StructType]) -> None:
        self.registry = StateRegistry()
        self._time_mode = time_mode
        self._parse_ddl = parse_ddl

    def _arrow(self, schema: Schema) -> pa.Schema:
        return arrow_schema(self._parse_ddl(schema) if isinstance(schema, str) else schema)

    def _declare(self, name: str, kind: str, schema: Schema, user_key: Schema | None, ttl_ms: int | None) -> _Undefined:
        if ttl_ms is not None and self._time_mode != "processingTime":
            raise PlanError(
                f"state {name!r} declares ttlDurationMs={ttl_ms}, but the time mode is {self._time_mode!r}; "
                "state TTL is measured in processing time and needs timeMode='processingTime'"
            )
        if ttl_ms is not None and ttl_ms <= 0:
            raise PlanError(f"state {name!r} declares ttlDurationMs={ttl_ms}; it must be greater than 0")
        key_schema = None if user_key is None else self._arrow(user_key)
        self.registry.declare(name, kind, self._arrow(schema), user_key_schema=key_schema, ttl_ms=ttl_ms)
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
        raise PlanError(
            f"registerTimer({expiryTimestampMs}) in init(): there is no current key; register timers in handlers"
        )

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        raise PlanError(f"deleteTimer({expiryTimestampMs}) in init(): there is no current key; use timers in handlers")

    def listTimers(self) -> Iterator[int]:
        raise PlanError("listTimers() in init(): there is no current key; use timers in handlers")

    @property
    def coordinator(self) -> _Undefined:
        """Refuses to be used, as all else here."""
        return _Undefined("coordinator", "coordinator", "there is no shard; send events in handlers")

    def deleteIfExists(self, stateName: str) -> None:
        """Take back what ``init`` has declared under the name; a stored variable that is not declared is dropped."""
        self.registry.withdraw(stateName)


class _Undefined:
    """A state variable before there is a key, or the coordinator before there is a shard."""

    def __init__(self, name: str, what: str | None = None, why: str = _NO_KEY) -> None:
        self._what = what or f"state {name!r}"
        self._why = why

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise PlanError(f"{self._what}.{attribute}() in init(): {self._why}")


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
            f"{attribute}() has nothing to work on; declare it after deleting it, or under another name"
        )


class TaskHandle(StatefulProcessorHandle):
    """Live state and timers of the current key of a shard task."""

    def __init__(self, state: KeyedState, time_mode: str, coordinator: TaskCoordinator) -> None:
        self._state = state
        self._state.struct_class = row_class
        self._time_mode = time_mode
        #: Where events to the job's coordinator are sent.
        self.coordinator = coordinator

    def getValueState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> Any:
        return self._state.value_state(stateName) if self._has(stateName) else _Deleted("value", stateName)

    def getListState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> Any:
        return self._state.list_state(stateName) if self._has(stateName) else _Deleted("list", stateName)

    def getMapState(
        self, stateName: str, userKeySchema: Schema, valueSchema: Schema, ttlDurationMs: int | None = None
    ) -> Any:
        return self._state.map_state(stateName) if self._has(stateName) else _Deleted("map", stateName)

    def _has(self, name: str) -> bool:
        """False for a variable that the same ``init`` goes on to delete."""
        return name in self._state.registry

    def registerTimer(self, expiryTimestampMs: int) -> None:
        self._state.register_timer(self._kind("registerTimer"), expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        self._state.delete_timer(self._kind("deleteTimer"), expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        return iter(list(self._state.list_timers(self._kind("listTimers"))))

    def deleteIfExists(self, stateName: str) -> None:
        """Nothing to do in a task: the registry has the variables that ``init`` declares, and no others."""

    def _kind(self, method: str) -> Any:
        if self._time_mode not in _KIND_OF_MODE:
            raise PlanError(
                f"{method}() needs timeMode 'eventTime' or 'processingTime'; the operator's is {self._time_mode!r}"
            )
        return _KIND_OF_MODE[self._time_mode]


class TaskCoordinator:
    """``handle.coordinator``: a shard task's way to the job's coordinator.

    Args:
        events: takes the events; they count if this attempt of the task wins.
        sender: name of the processor's class.
        max_bytes: the most that one event may take; None: the job has no coordinator.
        is_backlog: see :attr:`isBacklog`.
    """

    def __init__(self, events: TaskEvents, sender: str, max_bytes: int | None, *, is_backlog: bool) -> None:
        self._events = events
        self._sender = sender
        self._max_bytes = max_bytes
        #: True while any source of the job is in backlog.
        self.isBacklog = is_backlog

    def send(self, event: Any) -> None:
        """Send plain data to the coordinator's ``handleEventFromSubtask``: it comes there after this epoch, and what
        a backlog's epochs send at the switch.

        Raises:
            OperatorEventError: it is not plain or too large, or the job has no coordinator.
        """
        what = f"event of type {type(event).__name__} from processor {self._sender}"
        if self._max_bytes is None:
            raise OperatorEventError(f"{what} has nobody to go to; give transformWithState a coordinator=…")
        self._events.sent.append(encode(event, what, self._max_bytes))
