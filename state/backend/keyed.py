"""The one contract of keyed state, whatever the backend: variables and timers of the current key.

Two backends implement it: :class:`~.sorted_pass.BatchKeyedState` (keys in order, each once, one in memory at a time)
and :class:`~.random_access.RandomAccessKeyedState` (keys in any order over a local copy).  Same operations, same
answers, same files.  ``tests/state/backend/test_keyed.py`` puts each through the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import pyarrow as pa

from ...errors import PlanError, StateSchemaError
from ..codec.conversions import MisfitError, int_of
from ..codec.structs import StructClass, plain_tuple
from ..keys.key_space import TIMER_SLOTS, TimerKind, decode_ts, encode_ts
from ..keys.registry import StateRegistry
from .blocks import BlockCells, BlockKeys
from .timer_walk import TimerWalk
from .variables import ListState, MapState, ValueState

_MIN_TS, _MAX_TS = -(2**63), 2**63 - 1
_SUFFIXES = {kind: bytes([slot]) for kind, slot in TIMER_SLOTS.items()}


_CLASSES: dict[str, type[ValueState | ListState | MapState]] = {"value": ValueState, "list": ListState, "map": MapState}
VariableT = TypeVar("VariableT", ValueState, ListState, MapState)


class KeyedState(ABC):
    """State variables and timers of the current key.  Invariant: nothing is shared between keys."""

    #: True if there is state from before.
    has_base: bool
    #: What was written to the current key since it was last stored, by suffix; None: deleted.
    changes: dict[bytes, bytes | None]

    def __init__(self, registry: StateRegistry, now_ms: int) -> None:
        self.registry = registry
        #: Processing time of the whole epoch: the clock of TTLs.
        self.now_ms = now_ms
        #: While True, registering a timer does nothing (the end of input has been reached); calls are counted.
        self.ignore_new_timers = False
        self.ignored_timers = 0
        #: What structs inside values come back as; to be set before the first variable is asked for.
        self.struct_class: StructClass = plain_tuple
        self._variables = DeclaredVariables(self)
        #: Walks over the current key's timers that are under way.
        self._walks: dict[TimerKind, TimerWalk] = {}

    # -- the current key -------------------------------------------------------------------------------------------

    @abstractmethod
    def set_current_key(self, key_group: int, key: bytes) -> None:
        """Make a key the current one; state objects that were handed out now speak of it."""

    @abstractmethod
    def read_cell(self, suffix: bytes) -> bytes | None:
        """A cell of the current key."""

    def write_cell(self, suffix: bytes, value: bytes) -> None:
        """Set a cell of the current key."""
        self.changes[suffix] = value

    def delete_cell(self, suffix: bytes) -> None:
        """Remove a cell of the current key."""
        self.changes[suffix] = None

    @abstractmethod
    def scan_cells(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """The current key's cells of one slot in order, as of the first ``next``."""

    # -- many keys at once -----------------------------------------------------------------------------------------

    @abstractmethod
    def begin_block(self) -> None:
        """Finish the current key: until :meth:`end_block` there is none."""

    @abstractmethod
    def read_cells(self, keys: BlockKeys, suffix: bytes) -> pa.BinaryArray:
        """One cell of each key of a block; null where there is none.

        Raises:
            pa.lib.ArrowCapacityError: they are more than one array holds.
        """

    @abstractmethod
    def write_cells(self, keys: BlockKeys, cells: Sequence[BlockCells]) -> None:
        """Set and delete cells of the keys of a block; a sorted pass has no key of it yet, and takes timers, too."""

    @abstractmethod
    def end_block(self) -> None:
        """Keys come one by one again."""

    # -- variables -------------------------------------------------------------------------------------------------

    def value_state(self, name: str) -> ValueState:
        """The value state of that name."""
        return self._variables.get(name, ValueState)

    def list_state(self, name: str) -> ListState:
        """The list state of that name."""
        return self._variables.get(name, ListState)

    def map_state(self, name: str) -> MapState:
        """The map state of that name."""
        return self._variables.get(name, MapState)

    # -- timers ----------------------------------------------------------------------------------------------------

    def register_timer(self, kind: TimerKind, ts_ms: int) -> None:
        """Register a timer of the current key; registering it twice is the same as once."""
        if self.ignore_new_timers:
            self.ignored_timers += 1
            return
        self.write_cell(_timer_suffix(kind, ts_ms), b"")
        walk = self._walks.get(kind)
        if walk is not None:
            walk.registered(int(ts_ms))
        self._timer_registered(kind, int(ts_ms))

    def delete_timer(self, kind: TimerKind, ts_ms: int) -> None:
        """Delete a timer of the current key; deleting one that does not exist does nothing."""
        self.delete_cell(_timer_suffix(kind, ts_ms))

    def list_timers(self, kind: TimerKind) -> Iterator[int]:
        """The current key's timers in time order."""
        return (decode_ts(suffix[1:]) for suffix, _ in self.scan_cells(TIMER_SLOTS[kind]))

    def walk_timers(self, kind: TimerKind) -> TimerWalk:
        """A walk over the timers of one key after the other, which takes note of those that are registered from now on.

        The caller begins it anew whenever another key becomes the current one.
        """
        slot = bytes([TIMER_SLOTS[kind]])
        walk = self._walks[kind] = TimerWalk(
            lambda ts_ms: self.read_cell(slot + encode_ts(ts_ms)) is not None,
            lambda ts_ms: self.delete_cell(slot + encode_ts(ts_ms)),
        )
        return walk

    def pop_due_timers(self, kind: TimerKind, upto_ms: int) -> Iterator[int]:
        """The current key's timers up to ``upto_ms`` in time order; see :meth:`TimerWalk.due`."""
        walk = self.walk_timers(kind)
        walk.begin(list(self.list_timers(kind)))
        yield from walk.due(upto_ms)
        self._walks.pop(kind, None)

    @abstractmethod
    def _timer_registered(self, kind: TimerKind, ts_ms: int) -> None:
        """Called after a timer's cell is written."""

    @abstractmethod
    def next_timer(self, kind: TimerKind) -> int | None:
        """The earliest pending timer of the whole shard, once the epoch's work is done; None if there is none."""


class DeclaredVariables:
    """The state variables of a registry, each made when it is first asked for."""

    def __init__(self, state: KeyedState) -> None:
        self._state = state
        self._made: dict[str, ValueState | ListState | MapState] = {}

    def get(self, name: str, kind: type[VariableT]) -> VariableT:
        """The variable of that name.

        Raises:
            StateSchemaError: it is not declared, or as a variable of another kind.
        """
        state, found = self._state, self._made.get(name)
        if found is None:
            item = state.registry.get(name)
            found = _CLASSES[item.kind](state, item, state.now_ms, state.struct_class)
            self._made[name] = found
        if not isinstance(found, kind):
            asked = next(word for word, cls in _CLASSES.items() if cls is kind)
            raise StateSchemaError(f"state {name!r} is declared as {found.descriptor.kind} state, not as {asked} state")
        return found


class NoKey(dict[bytes, Any]):
    """Stands in for the cells of the current key while there is none: any use is an error."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise PlanError(
            "keyed state was used without a current key; use state and timers in handlers, not in init(), endInput() or"
            " finish()"
        )

    __contains__ = __getitem__ = __setitem__ = __delitem__ = get = items = _refuse

    def __bool__(self) -> bool:
        return False


def _timer_suffix(kind: TimerKind, ts_ms: int) -> bytes:
    if ts_ms.__class__ is int and _MIN_TS <= ts_ms <= _MAX_TS:
        return _SUFFIXES[kind] + (ts_ms - _MIN_TS).to_bytes(8, "big")
    try:
        return _SUFFIXES[kind] + encode_ts(int_of(ts_ms, _MIN_TS, _MAX_TS))
    except MisfitError as misfit:
        raise StateSchemaError(f"timer got {ts_ms!r}; its timestamp in ms takes {misfit}") from None
