"""Every error that mixedmode raises, as one tree.

A message says what happened, the value at fault, and what to do.  Each class also subclasses the built-in class that a
caller would expect: ``except ValueError`` catches a bad option.

Each error has a ``code`` that stays the same when its message changes: the code of its class, or a finer one.
``docs/troubleshooting.md`` has the cause and cure of each code.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class MixedModeError(Exception):
    """The base class of all errors of this library.

    Args:
        args: the message.
        code: the finer code of this case; None: the code of the class.
    """

    #: A name of the cause that does not change: an entry of the page on troubleshooting.
    code: str = "MIXEDMODE_INTERNAL"

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code
        # Python shows it below the message where it knows of notes (3.11).
        self.__notes__ = [f"[{self.code}]"]


class OptionError(MixedModeError, ValueError):
    """An option is unknown, or its value is not allowed.  The message has the option, the value and what is allowed."""

    code = "MIXEDMODE_OPTION_INVALID"


class PlanError(MixedModeError, ValueError):
    """The job cannot be planned as described (a column is missing, schemas differ, a function is not supported)."""

    code = "MIXEDMODE_PLAN_INVALID"


def not_supported(message: str) -> PlanError:
    """The error for what Spark could do, and a job cannot."""
    return PlanError(message, code="MIXEDMODE_NOT_SUPPORTED")


def invalid_processor(message: str) -> PlanError:
    """The error for a processor that cannot be used as it is."""
    return PlanError(message, code="MIXEDMODE_PROCESSOR_INVALID")


class UnsupportedOperationError(PlanError, AttributeError):
    """A frame of a job does not have this operation of Spark.  The message says what to do instead."""

    code = "MIXEDMODE_NOT_SUPPORTED"


class SetupError(MixedModeError, RuntimeError):
    """Java, Python or the Spark session does not allow the job to run.  The message says what to install or set."""

    code = "MIXEDMODE_SETUP_INVALID"


class AddressUnavailableError(MixedModeError, OSError):
    """Metrics cannot be served at a host and port.  The message has both, and what the system says."""

    code = "MIXEDMODE_ADDRESS_UNAVAILABLE"


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
    """A task got rows of another shard's keys.  Its results are not used."""

    code = "MIXEDMODE_ROWS_MISPLACED"


class AggregateOverflowError(MixedModeError, OverflowError):
    """A sum left the range of its type under ``spark.sql.ansi.enabled``.  The message names the column."""

    code = "MIXEDMODE_AGGREGATE_OVERFLOW"


class WideSumError(MixedModeError, OverflowError):
    """A task got a sum of decimals that does not fit the 64 bits in which Spark has added it.  Its results are not
    used: Spark adds decimals instead."""

    code = "MIXEDMODE_SUM_TOO_WIDE"


class UnknownStateError(CheckpointError, LookupError):
    """A reader asked for an unknown checkpoint, operator or variable; the message lists the existing ones."""

    code = "MIXEDMODE_STATE_UNKNOWN"


class StateSchemaError(MixedModeError, TypeError):
    """A value does not fit the schema of its state, or the stored state does not fit a changed schema."""

    code = "MIXEDMODE_STATE_SCHEMA"


class OutputSchemaError(MixedModeError, TypeError):
    """A processor yielded a row that does not fit the output schema.  The message has field, value and key."""

    code = "MIXEDMODE_OUTPUT_SCHEMA"


class SorterError(MixedModeError, RuntimeError):
    """The external sorter cannot continue: budget too small, spill folder unusable, or spill file corrupt."""

    code = "MIXEDMODE_SORTER_FAILED"


class OperatorEventError(MixedModeError, ValueError):
    """An operator event is not plain data, is too large, or has no receiver."""

    code = "MIXEDMODE_EVENT_INVALID"


class CoordinatorError(MixedModeError, RuntimeError):
    """A coordinator raised an exception, or returned something that is not allowed.  ``__cause__`` is its own error."""

    code = "MIXEDMODE_COORDINATOR_FAILED"


class UserCodeError(MixedModeError, RuntimeError):
    """A handler of a processor, a function of foreachBatch, or a Python function of the input raised an exception.

    The message begins with the line of the user's code, then has the exception, stage, handler, key and event time.
    """

    code = "MIXEDMODE_USER_CODE_FAILED"


class DataLossError(MixedModeError, RuntimeError):
    """A source has lost input that the job still needs.  The message says which: offsets of a topic, or files."""

    code = "MIXEDMODE_DATA_LOST"


class QueryError(MixedModeError, RuntimeError):
    """A running query failed.  ``__cause__`` is the original error, and this one is also of its class.

    An error of Spark's with Java's stack in it is the ``__context__`` instead: Python does not print that.
    """

    code = "MIXEDMODE_QUERY_FAILED"


#: Characters of an error that Python may print below the one that came of it.
_LONGEST_PRINTED = 2000


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
    _print_in_one_screen(error)
    return error


def _print_in_one_screen(error: BaseException) -> None:
    """Make what Python prints of an error and of what it came of fit a screen.

    Spark's errors have Java's stacks or plans in their text, and what happened is in ours.  One of those becomes the
    ``__context__`` of the error above it: it is there for whoever asks, and Python does not print it.
    """
    seen: set[int] = set()
    above: BaseException | None = error
    while above is not None and id(above) not in seen:
        seen.add(id(above))
        below = above.__cause__
        if below is not None and (_is_of_spark(below) or len(str(below)) > _LONGEST_PRINTED):
            above.__cause__, above.__context__, above.__suppress_context__ = None, below, True
        above = below


def _is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


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
    """A query did not end within the timeout of ``stop()`` and was given up.  The message says what hung."""

    code = "MIXEDMODE_STOP_TIMED_OUT"
