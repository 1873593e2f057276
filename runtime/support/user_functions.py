"""Looks at a function that a user gave: whether a plain call runs its body, and whether it takes the arguments.

A call of an ``async def``, or of a function with a ``yield``, only makes an object that somebody must drive.  Whoever
calls it for its effect would take rows as handed over that nobody has seen.
"""

from __future__ import annotations

import inspect
from typing import Any

from pyspark import cloudpickle

#: What is asked of a function that a plain call does not run, for messages.
ORDINARY = "give it an ordinary function"


def name_of(function: Any) -> str:
    """The name of a function, or the class of another callable, for messages."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def kind_that_waits(function: Any, *, may_yield: bool = False) -> str | None:
    """Names the kind of a function whose body does not run when it is called; None: it runs.

    Args:
        function: a function, a method, or an object with ``__call__``.
        may_yield: whether the caller takes what a generator yields.
    """
    for called in (function, type(function).__call__):
        if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
            return "an async function"
        if inspect.isgeneratorfunction(called) and not may_yield:
            return "a generator function"
    return None


def why_not_called_with(function: Any, *arguments: Any) -> str | None:
    """Says what is wrong with a call with these arguments, in words; None: it can be made, or nobody can say.

    Args:
        function: a function, a method, a class, or an object with ``__call__``.
        arguments: stand for those of the call, which go by position.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # a decorator may give some arguments itself
    except (TypeError, ValueError):
        return None  # what is not written in Python does not say
    try:
        signature.bind(*arguments)
    except TypeError as error:
        return f"its arguments are {signature} ({error})"
    return None


def why_not_sent(function: Any) -> str | None:
    """Says why a function or an object cannot be sent to the tasks, in words; None: it can."""
    try:
        cloudpickle.dumps(function)
    except Exception as error:  # whatever __reduce__ of what it refers to raises
        return f"cannot be sent to the tasks ({error})"
    return None
