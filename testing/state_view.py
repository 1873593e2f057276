"""A look into the state of a job in this process, and changes to it, between two epochs and by the same classes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from ..errors import UnknownStateError
from ..runtime.operators.contract import ShardCounters
from ..runtime.operators.processor.rows.row_reader import row_class
from ..runtime.support.ids import EpochNumber
from ..runtime.tasks.report import ShardReport
from ..state.backend.random_access import RandomAccessKeyedState
from ..state.backend.reader import ShardView
from ..state.keys.key_space import TimerKind
from ..state.keys.keygroups import ShardId, by_shard
from ..state.keys.registry import StateDescriptor
from ..state.store.log import LogWriter
from .local_job import LocalJob
from .local_stage import UID, LocalStage

KINDS: tuple[TimerKind, ...] = ("event", "processing")


@dataclass(frozen=True)
class StateView:
    """State and timers of a stage as its last epoch has left them.

    Args:
        job: the job.
        stage: its stage.
        now_ms: processing time: what has expired by then is not there.
    """

    job: LocalJob
    stage: LocalStage
    now_ms: int

    def variable(self, name: str, kind: str | None = None) -> StateDescriptor:
        """A state variable.

        Raises:
            UnknownStateError: there is none of that name, or it is of another kind.
        """
        registry = self.job.state.stages[UID].operator.registry
        known = {one.name: one for one in registry}
        if name not in known:
            raise UnknownStateError(f"the processor has no state {name!r}; it declares {', '.join(known) or 'none'}")
        if kind is not None and known[name].kind != kind:
            raise UnknownStateError(f"state {name!r} is {known[name].kind} state, not {kind} state")
        return known[name]

    @property
    def names(self) -> list[str]:
        """Names of all state variables."""
        return [one.name for one in self.job.state.stages[UID].operator.registry]

    def _views(self) -> Iterator[ShardView]:
        for number, shard in by_shard(self.job.state.stages[UID].shards):
            local_copy = self.job.here.local_copy(UID, number, shard.manifest)
            if local_copy is not None:
                yield ShardView(local_copy, shard.manifest.key_groups, self.stage.codec, self.now_ms)

    def of_all_keys(self, name: str) -> dict[Any, Any]:
        """A variable by key: a value, a list, or a dict."""
        kind, found = self.variable(name).kind, {}
        for key in self._keys_with(name):
            value = self.of_key(name, kind, self.stage.codec.decode(key))
            if value is not None and (value or kind == "value"):
                found[_shown(self.stage.codec.decode(key))] = value
        return found

    def _keys_with(self, name: str) -> list[bytes]:
        slot = self.variable(name).slot
        return [key for view in self._views() for key, _ in view.cells(slot)]

    def timers(self) -> list[tuple[Any, int]]:
        """Key and time (ms) of all pending timers, in order of time."""
        codec = self.stage.codec
        found = [(at, key) for view in self._views() for kind in KINDS for key, at in view.timers(kind)]
        return [(_shown(codec.decode(key)), at) for at, key in sorted(found)]

    def of_key(self, name: str, kind: str, key: object) -> Any:
        """A variable of one key: a value or None, a list, or a dict.

        Args:
            name: of the variable.
            kind: ``value``, ``list`` or ``map``.
            key: the key.
        """
        self.variable(name, kind)
        with self._at(key) as (state, _):
            state.struct_class = row_class
            if kind == "value":
                return state.value_state(name).get()
            return list(state.list_state(name).get()) if kind == "list" else dict(state.map_state(name).iterator())

    def change(self, name: str, kind: str, key: object, value: Any) -> None:
        """Set a variable of one key.

        Args:
            name: of the variable.
            kind: ``value``, ``list`` or ``map``.
            key: the key.
            value: what it is from now on; None: it is removed.
        """
        self.variable(name, kind)
        with self._at(key) as (state, shard):
            variable: Any = getattr(state, f"{kind}_state")(name)
            variable.clear()
            if value is not None and kind == "value":
                variable.update(value)
            elif value is not None and kind == "list":
                variable.put(list(value))
            else:
                for user_key, one in (value or {}).items():
                    variable.updateValue(user_key, one)
            self._write(state, shard)

    @contextmanager
    def _at(self, key: object) -> Iterator[tuple[RandomAccessKeyedState, ShardId]]:
        group, encoded = self.stage.identify(key)
        stage = self.job.state.stages[UID]
        number = next(n for n, shard in by_shard(stage.shards) if group in shard.manifest.key_groups)
        manifest = stage.shards[number].manifest
        local_copy = self.job.here.local_copy(UID, number, manifest)
        state = RandomAccessKeyedState(stage.operator.registry, local_copy, manifest.key_groups, self.now_ms)
        state.set_current_key(group, encoded)
        yield state, number

    def _write(self, state: RandomAccessKeyedState, number: ShardId) -> None:
        job, stage = self.job, self.job.state.stages[UID]
        pool, local = job.here.places(UID)
        job.state.epoch = EpochNumber(job.state.epoch + 1)  # files are of epochs
        name = f"e{job.state.epoch:08d}-s{number:04d}-{uuid.uuid4().hex[:8]}"
        writer = LogWriter(job.filesystem, pool, local, name, job.state.epoch)
        state.flush(writer)
        shard = stage.shards[number]
        counters = ShardCounters(
            next_event_timer_ms=shard.next_event_timer_ms, next_processing_timer_ms=shard.next_processing_timer_ms
        )
        stage.apply([ShardReport(number, name, tuple(writer.finish()), (), counters, {})])


def _shown(key: tuple[Any, ...]) -> Any:
    """A key as tests write it: the value of a single column."""
    return key[0] if len(key) == 1 else cast(Any, key)
