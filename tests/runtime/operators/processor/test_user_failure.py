"""What goes wrong in a processor is said with the user's line, the handler and its key; without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mixedmode.errors import PlanError, UserCodeError
from stage_support import COUNT, INPUT, Scripted, Stage


class Doing(Scripted):
    """Calls a function with its handle in one of its methods; the function's result is the method's."""

    def __init__(self, method: str, function: Callable[[Any], Any], *, on_driver: bool = True) -> None:
        super().__init__()
        self._method, self._function, self._on_driver = method, function, on_driver

    def _do(self, method: str, otherwise: Any = ()) -> Any:
        wanted = method == self._method and (self._on_driver or type(self._handle).__name__ == "TaskHandle")
        return self._function(self._handle) if wanted else otherwise

    def init(self, handle: Any) -> None:
        super().init(handle)
        self._do("init")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        if self._method == "handleExpiredTimer":
            self._handle.registerTimer(5)
        return self._do("handleInputRows")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        return self._do("handleExpiredTimer")

    def endInput(self) -> Any:
        return self._do("endInput", None)

    def close(self) -> None:
        self._do("close")


def run(folder: Path, method: str, function: Callable[[Any], Any], *, on_driver: bool = True) -> list[Any]:
    """One epoch with a row, whose timer fires, and the end of input."""
    stage = Stage(folder, processor=Doing(method, function, on_driver=on_driver))
    return stage.stream([("a", 5, "x")], 5, ending=method == "endInput")


@pytest.mark.parametrize("returned", [None, 5])
@pytest.mark.parametrize("handler", ["handleInputRows", "handleExpiredTimer"])
def test_a_handler_that_returns_no_rows_is_an_error_as_in_stock(tmp_path: Path, handler: str, returned: Any) -> None:
    """A forgotten ``yield`` is told at the handler's own line, with Python's words for it, and the key."""
    kind = type(returned).__name__
    with pytest.raises(
        UserCodeError,
        match=rf"(?s)^File \"{re.escape(__file__)}\", line \d+, in {handler}: def {handler}"
        rf".*\nTypeError: '{kind}' object is not"
        rf" iterable: {handler} returned {returned}; yield rows.* stage 'stage', {handler}, key \('a',\)",
    ):
        run(tmp_path, handler, lambda handle: returned)


def test_a_hook_may_return_nothing_but_no_number(tmp_path: Path) -> None:
    """endInput() need not have rows; what is neither rows nor None is an error that names it."""
    assert run(tmp_path / "none", "endInput", lambda handle: None) == []
    with pytest.raises(UserCodeError, match=r"(?s)in endInput: def endInput.*endInput returned 5; yield"):
        run(tmp_path / "number", "endInput", lambda handle: 5)


@pytest.mark.parametrize("error", [SystemExit("bye"), KeyboardInterrupt()])
def test_an_exit_in_a_handler_is_told_as_an_exception(tmp_path: Path, error: BaseException) -> None:
    """sys.exit() and its like name handler, key and event time, too."""

    def leave(handle: Any) -> Any:
        raise error

    with pytest.raises(
        UserCodeError,
        match=rf"(?s)^File .* in leave: raise error\n{type(error).__name__}.*handleInputRows, key \('a',\)",
    ):
        run(tmp_path, "handleInputRows", leave)


@pytest.mark.parametrize("error", [RuntimeError("no server"), SystemExit("bye")])
def test_an_error_in_init_names_line_processor_and_stage(tmp_path: Path, error: BaseException) -> None:
    """init() also runs in the driver, whose program sees an error of the job, even of sys.exit()."""

    def fail(handle: Any) -> Any:
        raise error

    with pytest.raises(
        UserCodeError,
        match=r"(?s)^File .* in fail: raise error\n.*in processor Doing of stage 'stage', init, .*start\(\)",
    ):
        run(tmp_path, "init", fail)


# -- what a handle can do in which method ------------------------------------------------------------------------------

DECLARING: dict[str, Callable[[Any], Any]] = {
    "getValueState": lambda handle: handle.getValueState("late", COUNT),
    "getListState": lambda handle: handle.getListState("late", COUNT),
    "getMapState": lambda handle: handle.getMapState("late", COUNT, COUNT),
    "count": lambda handle: handle.getValueState("count", COUNT),
}
TIMING: dict[str, Callable[[Any], Any]] = {
    "registerTimer": lambda handle: handle.registerTimer(9),
    "deleteTimer": lambda handle: handle.deleteTimer(9),
    "listTimers": lambda handle: list(handle.listTimers()),
}


@pytest.mark.parametrize("call", DECLARING)
@pytest.mark.parametrize("method", ["handleInputRows", "handleExpiredTimer", "endInput", "close"])
def test_state_is_declared_in_init_only(tmp_path: Path, method: str, call: str) -> None:
    """As Spark's handle after its initialization; also for a variable that init() has declared."""
    name = "count" if call == "count" else "late"
    with pytest.raises(PlanError, match=rf"state '{name}' is declared in {method}; declare it in init\(\)"):
        run(tmp_path, method, DECLARING[call])


@pytest.mark.parametrize("method", ["handleInputRows", "close"])
def test_state_is_deleted_in_init_only(tmp_path: Path, method: str) -> None:
    """A variable that is dropped while rows are handled would be gone for some keys only."""
    with pytest.raises(PlanError, match=rf"deleteIfExists\('count'\) in {method}: .* in init\(\) only"):
        run(tmp_path, method, lambda handle: handle.deleteIfExists("count"))


@pytest.mark.parametrize("call", TIMING)
@pytest.mark.parametrize("method", ["init", "close"])
@pytest.mark.parametrize("on_driver", [True, False])
def test_timers_are_used_in_handlers_only(tmp_path: Path, method: str, call: str, on_driver: bool) -> None:
    """There is a key in handlers only; in the driver and in the tasks alike."""
    with pytest.raises(
        PlanError, match=rf"{call}\(.*\) in {method}\(\): there is no current key; .*timers in handlers"
    ):
        run(tmp_path, method, TIMING[call], on_driver=on_driver)


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda handle: handle.getValueState("v", 5), r"schema of state 'v' is 5; give a StructType or a DDL string"),
        (lambda handle: handle.getListState("v", None), "schema of state 'v' is None"),
        (lambda handle: handle.getMapState("v", None, COUNT), "userKeySchema of state 'v' is None"),
        (lambda handle: handle.getMapState("v", COUNT, INPUT["ts"]), "valueSchema of state 'v' is StructField"),
    ],
)
def test_a_bad_schema_of_state_names_the_variable(tmp_path: Path, declare: Callable[[Any], Any], problem: str) -> None:
    """The line in init(), the parameter, the variable and the value."""
    with pytest.raises(PlanError, match=rf"(?s){problem}.*\nat File .*, in <lambda>"):
        run(tmp_path, "init", declare)
