"""Brings errors of shard tasks back to the driver as what they were.

An exception in a Python worker reaches the driver as a Spark exception whose text holds the worker's traceback.  Our
own errors are recognised in it and raised again with their type and message; everything else stays as Spark made it.
"""

from __future__ import annotations

import re

from .. import errors
from ..errors import CorruptStateError, MixedModeError
from .checkpoints.store import CheckpointStore

#: The last line(s) of a worker's traceback: qualified class name, message, then Java frames or the end.
_OWN_ERROR = re.compile(r"^mixedmode\.errors\.(\w+): (.*?)(?=^\s*$|^\s+at |^\s*$|^Driver stacktrace|\Z)", re.M | re.S)


def translate(error: BaseException) -> BaseException:
    """The error that a worker raised, if ``error`` carries one of ours; ``error`` itself otherwise."""
    if isinstance(error, MixedModeError):
        return error
    matches = _OWN_ERROR.findall(str(error))
    if not matches:
        return error
    name, message = matches[-1]
    kind = getattr(errors, name, MixedModeError)
    translated: MixedModeError = kind(message.strip())
    translated.__cause__ = error
    return translated


def explain_corruption(error: BaseException, store: CheckpointStore) -> BaseException:
    """For a corrupt state file, add which older checkpoint is whole."""
    if not isinstance(error, CorruptStateError) or "older checkpoint" in str(error):
        return error
    if not str(error).startswith("state file"):
        return error  # an older checkpoint would not help
    try:
        ids = store.ids()
        if not ids:
            return error
        explained = store.with_alternative(error, ids[-1])
    except OSError:  # the location is gone as a whole
        return error
    explained.__cause__ = error
    return explained
