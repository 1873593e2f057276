"""Checks the timeouts that users give to methods of a query's handle."""

from __future__ import annotations

import contextlib
import math
import threading
from numbers import Real

from ...errors import OptionError

#: PySpark counts the milliseconds of a timeout in 64 bits.
_LONGEST_S = (2**63 - 1) // 1000


def timeout_s(method: str, timeout: object, *, may_be_zero: bool = False) -> float | None:
    """The timeout of a method of the handle, as threads take it; None: without limit.

    Args:
        method: its name, without brackets.
        timeout: as the caller gave it.
        may_be_zero: the method then looks once and does not wait.

    Raises:
        OptionError: it is not a number of seconds greater than 0, or of at least 0.
    """
    if timeout is None:
        return None
    seconds = _number(timeout)
    if seconds == math.inf or 0 < seconds <= float(_LONGEST_S) or (may_be_zero and seconds == 0):  # none holds for nan
        return min(seconds, threading.TIMEOUT_MAX)
    least = "at least 0" if may_be_zero else "greater than 0"
    raise OptionError(
        f"timeout of {method}() is {_shown(timeout)}; allowed: a number of seconds, {least}, at most {_LONGEST_S}"
    )


def _number(value: object) -> float:
    """A number of any kind as a float; nan: it is none, or too large for one."""
    if isinstance(value, Real):
        with contextlib.suppress(OverflowError):
            return float(value)
    return math.nan


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write an int of thousands of digits
        return "an int of too many digits"
    return text if len(text) <= 40 else f"{text[:40]}…"
