"""Brings errors of shard tasks back to the driver as what they were.

An exception in a Python worker reaches the driver as a Spark exception whose text holds the worker's traceback.  Our
own errors are recognised in it and raised again with their type and message; everything else stays as Spark made it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ... import errors
from ...errors import MixedModeError, UserCodeError
from .user_frames import UserFrames, is_ours

#: The last line(s) of a worker's traceback: qualified class name, message, then Java frames or the end.
_OWN_ERROR = re.compile(r"^mixedmode\.errors\.(\w+): (.*?)(?=^\s*$|^\s+at |^\s*$|^Driver stacktrace|\Z)", re.M | re.S)
#: A message, and the code that the worker's Python has put below it, if it knows of notes (3.11).
_NOTE = re.compile(r"(.*?)(?:\n\[(MIXEDMODE_\w+)\])?", re.S)
#: A traceback in the text of an error of Spark's: its frames, and what was raised.
_TRACEBACK = re.compile(
    r"^.*Traceback \(most recent call last\):\n((?:^ .*\n)+)((?:^(?!\s*$|\s+at | SQLSTATE|Driver stacktrace).*\n?)+)",
    re.M,
)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)\n(?:    (.*)\n)?', re.M)


@contextmanager
def raised_in_workers() -> Iterator[None]:
    """Raise the error that a worker raised in place of Spark's error around it; any other error stays as it is."""
    try:
        yield
    except Exception as error:
        translated = translate(error)
        raise translated from translated.__cause__


def translate(error: BaseException) -> BaseException:
    """The error that a worker raised, if ``error`` carries one of ours or of user code; ``error`` itself otherwise."""
    if isinstance(error, MixedModeError):
        return error
    matches = _OWN_ERROR.findall(str(error))
    if not matches:
        return _of_a_function(error)
    name, message = matches[-1]
    kind = getattr(errors, name, MixedModeError)
    said, code = _NOTE.fullmatch(message.strip()).groups()  # type: ignore[union-attr]
    translated: MixedModeError = kind(said, code=code)
    return _with_one_cause(translated, error)


def _of_a_function(error: BaseException) -> BaseException:
    """The same for an exception in a Python function that Spark itself has called: a UDF, a data source."""
    for frames, raised in _TRACEBACK.findall(str(error)):
        found = [
            traceback.FrameSummary(name, int(line), function, lookup_line=False, line=code)
            for name, line, function, code in _FRAME.findall(frames)
        ]
        own = UserFrames(tuple(frame for frame in found if not is_ours(frame.filename)))
        if own.place_of_user:
            error_of_user = UserCodeError(
                "\n".join([*own.place_text, raised.strip(), "in a Python function of the job"])
            )
            return _with_one_cause(error_of_user, error)
    return error


def _with_one_cause(error_of_user: MixedModeError, error: BaseException) -> MixedModeError:
    """The error of a worker; Spark's, which says the same between two hundred lines of Java, is its context, which
    Python does not print."""
    error_of_user.__context__, error_of_user.__suppress_context__ = error, True
    return error_of_user
