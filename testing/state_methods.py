"""The state and the timers of keys, as tests look at them and change them: names as of PySpark's ``TwsTester``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import PlanError
from .harness_run import HarnessRun
from .state_view import StateView


@dataclass(frozen=True)
class Timer:
    """A waiting timer."""

    #: The key's value, or a tuple of several.
    key: Any
    #: When it fires, in milliseconds: of event time, or of processing time, as the time mode says.
    at_ms: int


class StateMethods:
    """The state and the timers of each key in a harness."""

    _run: HarnessRun

    def timers(self, key: object = ...) -> list[Timer]:
        """The waiting timers by time, of all keys or of one: ``harness.timers("N1")``."""
        found = [Timer(held, at_ms) for held, at_ms in self._view.timers()]
        if key is ...:
            return found
        wanted = self._run.arguments.stage.identify(key)
        return [timer for timer in found if self._run.arguments.stage.identify(timer.key) == wanted]

    def state(self, name: str) -> dict[Any, Any]:
        """The content of a state variable by key: a value, a list of values, or a dict.

            harness.state("legs")

        Raises:
            UnknownStateError: the processor declares no such variable.
        """
        return self._view.of_all_keys(name)

    def peek_value_state(self, name: str, key: object) -> tuple[Any, ...] | None:
        """The value of one key; None if it has none: ``harness.peek_value_state("legs", "N1")``."""
        found: tuple[Any, ...] | None = self._view.of_key(name, "value", key)
        return found

    def peek_list_state(self, name: str, key: object) -> list[tuple[Any, ...]]:
        """The list of one key: ``harness.peek_list_state("recent", "N1")``."""
        found: list[tuple[Any, ...]] = self._view.of_key(name, "list", key)
        return found

    def peek_map_state(self, name: str, key: object) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """The map of one key: ``harness.peek_map_state("by_hour", "N1")``."""
        found: dict[tuple[Any, ...], tuple[Any, ...]] = self._view.of_key(name, "map", key)
        return found

    def update_value_state(self, name: str, key: object, value: tuple[Any, ...]) -> None:
        """Sets the value of one key.

            harness.update_value_state("legs", "N1", (3,))

        Args:
            name: the state variable.
            key: the value of the key, or a tuple of several.
            value: the new content.

        Raises:
            UnknownStateError: the processor declares no such value state.
        """
        self._change(name, "value", key, value)

    def update_list_state(self, name: str, key: object, value: Sequence[tuple[Any, ...]]) -> None:
        """Sets the list of one key.

            harness.update_list_state("recent", "N1", [(1,), (2,)])

        Args:
            name: the state variable.
            key: the value of the key, or a tuple of several.
            value: the new content.

        Raises:
            UnknownStateError: the processor declares no such list state.
        """
        self._change(name, "list", key, value)

    def update_map_state(self, name: str, key: object, value: Mapping[tuple[Any, ...], tuple[Any, ...]]) -> None:
        """Sets the map of one key.

            harness.update_map_state("by_hour", "N1", {(7,): (1,)})

        Args:
            name: the state variable.
            key: the value of the key, or a tuple of several.
            value: the new content.

        Raises:
            UnknownStateError: the processor declares no such map state.
        """
        self._change(name, "map", key, value)

    def delete_state(self, name: str, key: object) -> None:
        """Removes a state variable of one key: ``harness.delete_state("legs", "N1")``."""
        self._change(name, self._view.variable(name).kind, key, None)

    @property
    def _view(self) -> StateView:
        return StateView(self._run.job, self._run.arguments.stage, self._run.now_ms)

    def _change(self, name: str, kind: Literal["value", "list", "map"], key: object, value: Any) -> None:
        if self._run.job.state.epoch == 0 and self._run.arguments.stage.initial is not None:
            raise PlanError(f"state {name!r} cannot be changed before the first rows: they bring the initial state")
        self._view.change(name, kind, key, value)
