"""The state and the timers of keys, as tests look at them and change them: names as of PySpark's ``TwsTester``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import PlanError
from .asked import Asked
from .job_here import JobHere
from .state_here import ViewOfState


@dataclass(frozen=True)
class Timer:
    """A timer that waits."""

    #: The key's value, or a tuple of several.
    key: Any
    #: When it fires, in milliseconds: of event time, or of processing time, as the time mode says.
    at_ms: int


class StateOfKeys:
    """What each key has in a harness."""

    _asked: Asked
    _job: JobHere
    _now_ms: int

    def timers(self, key: object = ...) -> list[Timer]:
        """The timers that wait, by time; ``key``: those of one key."""
        found = [Timer(held, at_ms) for held, at_ms in self._view.timers()]
        if key is ...:
            return found
        wanted = self._asked.stage.identify(key)
        return [timer for timer in found if self._asked.stage.identify(timer.key) == wanted]

    def state(self, name: str) -> dict[Any, Any]:
        """A state variable of all keys that have it: a value, a list of values, or a dict, by key.

        Raises:
            UnknownStateError: the processor declares no such variable.
        """
        return self._view.of_all_keys(name)

    def peek_value_state(self, name: str, key: object) -> tuple[Any, ...] | None:
        """The value of one key; None: it has none."""
        found: tuple[Any, ...] | None = self._view.of_key(name, "value", key)
        return found

    def peek_list_state(self, name: str, key: object) -> list[tuple[Any, ...]]:
        """The list of one key."""
        found: list[tuple[Any, ...]] = self._view.of_key(name, "list", key)
        return found

    def peek_map_state(self, name: str, key: object) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """The map of one key."""
        found: dict[tuple[Any, ...], tuple[Any, ...]] = self._view.of_key(name, "map", key)
        return found

    def update_value_state(self, name: str, key: object, value: tuple[Any, ...]) -> None:
        """Set the value of one key.

        Args:
            name: of the state variable.
            key: the key's value, or a tuple of several.
            value: what it is from now on.

        Raises:
            UnknownStateError: the processor declares no such value state.
        """
        self._change(name, "value", key, value)

    def update_list_state(self, name: str, key: object, value: Sequence[tuple[Any, ...]]) -> None:
        """Set the list of one key.

        Args:
            name: of the state variable.
            key: the key's value, or a tuple of several.
            value: what it is from now on.

        Raises:
            UnknownStateError: the processor declares no such list state.
        """
        self._change(name, "list", key, value)

    def update_map_state(self, name: str, key: object, value: Mapping[tuple[Any, ...], tuple[Any, ...]]) -> None:
        """Set the map of one key.

        Args:
            name: of the state variable.
            key: the key's value, or a tuple of several.
            value: what it is from now on.

        Raises:
            UnknownStateError: the processor declares no such map state.
        """
        self._change(name, "map", key, value)

    def delete_state(self, name: str, key: object) -> None:
        """Remove a variable of one key."""
        self._change(name, self._view.variable(name).kind, key, None)

    @property
    def _view(self) -> ViewOfState:
        return ViewOfState(self._job, self._asked.stage, self._now_ms)

    def _change(self, name: str, kind: Literal["value", "list", "map"], key: object, value: Any) -> None:
        if self._job.state.epoch == 0 and self._asked.stage.initial is not None:
            raise PlanError(f"state {name!r} cannot be changed before the first rows: they bring the initial state")
        self._view.change(name, kind, key, value)
