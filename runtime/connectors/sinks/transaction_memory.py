"""Has a table remember a job's transactions with the rows themselves, so that none is shown twice.

Delta keeps the last ``txnVersion`` of each ``txnAppId`` in its log, and skips an append or overwrite whose version it
has (https://docs.delta.io/latest/delta-streaming.html#idempotent-table-writes-in-foreachbatch).  Iceberg skips nothing,
but each commit can carry properties in its snapshot's summary, so whoever repeats one looks for it first, by what no
other transaction has: versions came again, once, when a job was put back to an older checkpoint.  Snapshots
that are expired between a crash and the restart are not found; a table keeps its newest ones.

Both make rows and memory visible by one atomic commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...spark_io.spark_iceberg import snapshot_summaries
from ...support.ids import JobId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..transaction import SinkTransaction

_APPLICATION, _VERSION = "txnAppId", "txnVersion"
_PROPERTY = "snapshot-property."
_JOB, _TRANSACTION, _TOKEN = "mixedmode.job-id", "mixedmode.transaction", "mixedmode.token"


@dataclass(frozen=True)
class TransactionMark:
    """What a table remembers of a transaction."""

    #: The job's, the same over restarts.
    job_id: JobId
    #: The transaction's; it only grows.
    version: int
    #: What no other transaction has; empty: it has but the version.
    token: str = ""
    #: Whether the version says where the transaction is in time, too; if not, others may have had the same.
    is_ordinal: bool = True

    @classmethod
    def of(cls, job_id: JobId, transaction: SinkTransaction, branch: int) -> TransactionMark:
        """That of a transaction.

        Args:
            job_id: the job's.
            transaction: what is committed.
            branch: that of the location in which it is.
        """
        has_ordinal = transaction.ordinal is not None
        return cls(job_id, transaction.ordinal_in(branch), transaction.unique, has_ordinal)


class TransactionMemory(ABC):
    """What a format is told of a transaction, and asked."""

    #: In words, for explain().
    by: str
    #: How an older driver is kept out; None: it is not.
    fencing: str | None = None
    #: Options of a write that are ours.
    ours: tuple[str, ...]

    @abstractmethod
    def options(self, mark: TransactionMark) -> Mapping[str, Any]:
        """What a write is given to remember."""

    def has(self, rows: DataFrame, table: str | None, path: str | None, mark: TransactionMark) -> bool:
        """True if a transaction must be skipped here, since the format does not.

        Args:
            rows: what it is to write.
            table: name of the table; None: ``path`` says where it is.
            path: its place.
            mark: the transaction's.
        """
        return False


class SkippedByVersion(TransactionMemory):
    """The format itself skips what it has: Delta, and whatever is declared to do the same."""

    by = f"{_APPLICATION} and {_VERSION}"
    fencing = f"greater {_VERSION}s after a take-over"
    ours = (_APPLICATION, _VERSION)

    def options(self, mark: TransactionMark) -> Mapping[str, Any]:
        return {_APPLICATION: mark.job_id, _VERSION: mark.version}


class FoundInSnapshots(TransactionMemory):
    """Iceberg: a transaction is looked for before it is committed again."""

    by = "properties of the table's snapshots"
    ours = tuple(f"{_PROPERTY}{name}" for name in (_JOB, _TRANSACTION, _TOKEN))

    def options(self, mark: TransactionMark) -> Mapping[str, Any]:
        return dict(zip(self.ours, (mark.job_id, mark.version, mark.token), strict=True))

    def has(self, rows: DataFrame, table: str | None, path: str | None, mark: TransactionMark) -> bool:
        summaries = snapshot_summaries(rows.sparkSession, table, path)
        return any(_is_of(summary, mark) for summary in summaries if summary.get(_JOB) == mark.job_id)


def _is_of(summary: Mapping[str, str], mark: TransactionMark) -> bool:
    """Whether a snapshot of the job's is a transaction's."""
    if _TOKEN in summary:
        return summary[_TOKEN] == mark.token
    # It was made before there were tokens, so it is of no transaction that has an ordinal.
    return not mark.is_ordinal and summary.get(_TRANSACTION) == str(mark.version)


#: Formats that are known to remember.
_BY_FORMAT: Mapping[str, type[TransactionMemory]] = {"delta": SkippedByVersion, "iceberg": FoundInSnapshots}


def memory_of(format: str, transactional: bool | None) -> TransactionMemory | None:
    """How a format remembers transactions; None: it does not.

    Args:
        format: its name.
        transactional: whether the user says that it does; None: what is known.
    """
    known = _BY_FORMAT.get(format.lower())
    if transactional is False or (transactional is None and known is None):
        return None
    return (known or SkippedByVersion)()
