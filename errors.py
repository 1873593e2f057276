"""Every error that mixedmode raises, as one tree.

A message is a fact, the offending value and a hint.  Each class also subclasses the built-in that a caller
would expect, so ``except ValueError`` around a bad option works without knowing this module.
"""

from __future__ import annotations


class MixedModeError(Exception):
    """Base of all errors of this library."""


class OptionError(MixedModeError, ValueError):
    """An option is unknown or its value not allowed.  The message names the option, the value and what is allowed."""


class PlanError(MixedModeError, ValueError):
    """The job cannot be planned as described (a column is missing, schemas differ, a function is not supported)."""


class UnsupportedOperationError(PlanError, AttributeError):
    """A frame of a job does not have an operation of Spark's.  The message says what to do instead."""


class SetupError(MixedModeError, RuntimeError):
    """Java, the worker interpreter or the kind of Spark session does not allow the job to run."""


class CheckpointError(MixedModeError, RuntimeError):
    """A checkpoint cannot be written, read or used by this job."""


class CheckpointMismatchError(CheckpointError):
    """The checkpoint belongs to another job, or to a newer format version."""


class CorruptStateError(CheckpointError):
    """A file of a checkpoint is missing, truncated or altered.  It is never read as "fewer rows"."""


class MisplacedRowsError(MixedModeError, RuntimeError):
    """A task was given rows of another shard's keys.  Nothing of what it did is used."""


class UnknownStateError(CheckpointError, LookupError):
    """A reader asked for a checkpoint, operator or variable that is not there; the message lists those that are."""


class StateSchemaError(MixedModeError, TypeError):
    """A state value does not fit its declared schema, or a changed schema cannot take over the stored state."""


class OutputSchemaError(MixedModeError, TypeError):
    """A processor yielded a row that does not fit the output schema.  The message names field, value and key."""


class SorterError(MixedModeError, RuntimeError):
    """The external sorter cannot go on (budget too small, spill folder unusable, spill file corrupt)."""


class OperatorEventError(MixedModeError, ValueError):
    """An operator event is not plain data, too large, or has nobody to go to."""


class CoordinatorError(MixedModeError, RuntimeError):
    """A coordinator raised, or gave something that is not allowed.  ``__cause__`` holds its own error."""


class UserCodeError(MixedModeError, RuntimeError):
    """A handler of a processor, or a function of foreachBatch, raised.  The message begins with the place in the
    user's code, then says what was raised, and by which stage, handler, key and time."""


class DataLossError(MixedModeError, RuntimeError):
    """A source has forgotten messages that the job had not read yet.  The message names topic, partition, offsets."""


class QueryError(MixedModeError, RuntimeError):
    """A running query failed.  ``__cause__`` holds the original error."""
