"""Every error that mixedmode raises, as one tree.

A message is a fact, the offending value and a hint.  Each class also subclasses the built-in that a caller
would expect, so ``except ValueError`` around a bad option works without knowing this module.

Each has a ``code``, which stays what it is while messages may be said better: that of its class, or a finer one that
the place which raises it gives.  ``docs/troubleshooting.md`` has cause and cure for each of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class MixedModeError(Exception):
    """Base of all errors of this library.

    Args:
        args: The message.
        code: The finer code of this case; that of the class if it has none.
    """

    #: What is behind it, by a name that does not change: an entry of the page on troubleshooting.
    code: str = "MIXEDMODE_INTERNAL"

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code
        # Python shows it below the message where it knows of notes (3.11).
        self.__notes__ = [f"[{self.code}]"]


class OptionError(MixedModeError, ValueError):
    """An option is unknown or its value not allowed.  The message names the option, the value and what is allowed."""

    code = "MIXEDMODE_OPTION_INVALID"


class PlanError(MixedModeError, ValueError):
    """The job cannot be planned as described (a column is missing, schemas differ, a function is not supported)."""

    code = "MIXEDMODE_PLAN_INVALID"


class UnsupportedOperationError(PlanError, AttributeError):
    """A frame of a job does not have an operation of Spark's.  The message says what to do instead."""

    code = "MIXEDMODE_NOT_SUPPORTED"


class SetupError(MixedModeError, RuntimeError):
    """Java, the worker interpreter or the kind of Spark session does not allow the job to run."""

    code = "MIXEDMODE_SETUP_INVALID"


class CheckpointError(MixedModeError, RuntimeError):
    """A checkpoint cannot be written, read or used by this job."""

    code = "MIXEDMODE_CHECKPOINT_FAILED"


class CheckpointMismatchError(CheckpointError):
    """The checkpoint belongs to another job, or to a newer format version."""

    code = "MIXEDMODE_CHECKPOINT_MISMATCH"


class CorruptStateError(CheckpointError):
    """A file of a checkpoint is missing, truncated or altered.  It is never read as "fewer rows"."""

    code = "MIXEDMODE_STATE_CORRUPT"


class MisplacedRowsError(MixedModeError, RuntimeError):
    """A task was given rows of another shard's keys.  Nothing of what it did is used."""

    code = "MIXEDMODE_ROWS_MISPLACED"


class UnknownStateError(CheckpointError, LookupError):
    """A reader asked for a checkpoint, operator or variable that is not there; the message lists those that are."""

    code = "MIXEDMODE_STATE_UNKNOWN"


class StateSchemaError(MixedModeError, TypeError):
    """A state value does not fit its declared schema, or a changed schema cannot take over the stored state."""

    code = "MIXEDMODE_STATE_SCHEMA"


class OutputSchemaError(MixedModeError, TypeError):
    """A processor yielded a row that does not fit the output schema.  The message names field, value and key."""

    code = "MIXEDMODE_OUTPUT_SCHEMA"


class SorterError(MixedModeError, RuntimeError):
    """The external sorter cannot go on (budget too small, spill folder unusable, spill file corrupt)."""

    code = "MIXEDMODE_SORTER_FAILED"


class OperatorEventError(MixedModeError, ValueError):
    """An operator event is not plain data, too large, or has nobody to go to."""

    code = "MIXEDMODE_EVENT_INVALID"


class CoordinatorError(MixedModeError, RuntimeError):
    """A coordinator raised, or gave something that is not allowed.  ``__cause__`` holds its own error."""

    code = "MIXEDMODE_COORDINATOR_FAILED"


class UserCodeError(MixedModeError, RuntimeError):
    """A handler of a processor, or a function of foreachBatch, raised.  The message begins with the place in the
    user's code, then says what was raised, and by which stage, handler, key and time."""

    code = "MIXEDMODE_USER_CODE_FAILED"


class DataLossError(MixedModeError, RuntimeError):
    """A source has forgotten messages that the job had not read yet.  The message names topic, partition, offsets."""

    code = "MIXEDMODE_DATA_LOST"


class QueryError(MixedModeError, RuntimeError):
    """A running query failed.  ``__cause__`` holds the original error."""

    code = "MIXEDMODE_QUERY_FAILED"


def query_error(message: str, cause: BaseException) -> QueryError:
    """A query's error, which is one of its cause's class, too: ``except UserCodeError`` catches a failing processor.

    Args:
        message: what happened.
        cause: what it failed with.
    """
    kinds = [type(cause)] if isinstance(cause, MixedModeError) else []
    behind = cause.__cause__ or cause.__context__
    if isinstance(behind, UserCodeError):  # what showed the output failed by it
        kinds.append(type(behind))
    error = _kind_of(tuple(kinds))(message, code=cause.code if isinstance(cause, MixedModeError) else None)
    error.__cause__ = cause
    return error


@cache
def _kind_of(kinds: tuple[type[MixedModeError], ...]) -> type[QueryError]:
    more = tuple(kind for kind in dict.fromkeys(kinds) if not issubclass(QueryError, kind))
    if not more or any(issubclass(kind, QueryError) for kind in more):
        return QueryError
    # It is shown, and known to whoever reads, by the name of the one that everybody catches.
    told = {"__module__": QueryError.__module__, "__doc__": QueryError.__doc__, "__reduce__": _reduced, "_kinds": more}
    return type("QueryError", (QueryError, *more), told)


def _reduced(error: Any) -> Any:
    return _restored, (error._kinds, error.args, error.code)


def _restored(kinds: tuple[type[MixedModeError], ...], args: tuple[object, ...], code: str) -> QueryError:
    return _kind_of(kinds)(*args, code=code)


class StopTimeoutError(QueryError, TimeoutError):
    """A query did not end within the timeout of ``stop()``, and was given up.  The message names what hung."""

    code = "MIXEDMODE_STOP_TIMED_OUT"
