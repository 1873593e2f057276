"""Functions whose body a call does not run are known, in whatever form they come."""

from __future__ import annotations

import functools
from functools import wraps
from typing import Any

import pytest
from mixedmode.runtime.support.user_functions import kind_that_waits, name_of, why_not_called_with


def plain(rows: Any, number: int) -> None:
    pass


async def coroutine(rows: Any, number: int) -> None:
    pass


def generator(rows: Any, number: int) -> Any:
    yield rows


async def async_generator(rows: Any, number: int) -> Any:
    yield rows


class Plain:
    def __call__(self, rows: Any, number: int) -> None:
        pass


class Coroutine:
    async def __call__(self, rows: Any, number: int) -> None:
        pass


@pytest.mark.parametrize("function", [plain, print, dict, Plain(), Plain, functools.partial(plain, None), [].append])
def test_a_call_runs_an_ordinary_function(function: Any) -> None:
    """Functions, classes, and objects that can be called."""
    assert kind_that_waits(function) is None


@pytest.mark.parametrize("function", [coroutine, async_generator, Coroutine(), functools.partial(coroutine, None)])
@pytest.mark.parametrize("may_yield", [True, False])
def test_a_call_does_not_run_an_async_function(function: Any, may_yield: bool) -> None:
    """Nor an object whose ``__call__`` is one."""
    assert kind_that_waits(function, may_yield=may_yield) == "an async function"


def test_a_call_does_not_run_a_generator() -> None:
    """Unless what it yields is taken."""
    for function in (generator, lambda rows, number: (yield)):
        assert kind_that_waits(function) == "a generator function"
        assert kind_that_waits(function, may_yield=True) is None


def test_a_function_has_a_name() -> None:
    """Another callable has that of its class."""
    assert (name_of(plain), name_of(Plain()), name_of([].append)) == ("plain", "Plain", "list.append")


def test_a_call_with_other_arguments_is_told() -> None:
    """What does not say what it takes is left alone."""
    assert why_not_called_with(plain, 1) == (
        "its arguments are (rows: 'Any', number: 'int') -> 'None' (missing a required argument: 'number')"
    )
    for right in (plain, Plain(), print, dict, lambda *both: None):
        assert why_not_called_with(right, None, 1) is None


def test_a_decorator_may_give_arguments_itself() -> None:
    """What the decorated function takes says nothing of the call."""

    @wraps(plain)
    def takes_rows(rows: Any) -> None:
        plain(rows, 7)

    assert why_not_called_with(takes_rows, None) is None
