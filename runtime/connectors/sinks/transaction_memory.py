"""How a table remembers, with the rows themselves, which transactions of a job it has: then none is shown twice.

Delta keeps the last ``txnVersion`` of each ``txnAppId`` in its log, and skips an append or overwrite whose version it
has (https://docs.delta.io/latest/delta-streaming.html#idempotent-table-writes-in-foreachbatch).  Iceberg skips nothing,
but each commit can carry properties in its snapshot's summary, so whoever repeats one looks for it first.  Snapshots
that are expired between a crash and the restart are not found; a table keeps its newest ones.

Both make rows and memory visible by one atomic commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...platform.spark_iceberg import snapshot_summaries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_APPLICATION, _VERSION = "txnAppId", "txnVersion"
_PROPERTY = "snapshot-property."
_JOB, _TRANSACTION = "mixedmode.job-id", "mixedmode.transaction"


class TransactionMemory(ABC):
    """What a format is told of a transaction, and asked."""

    #: In words, for explain().
    by: str
    #: How an older driver is kept out; None: it is not.
    fencing: str | None = None
    #: Options of a write that are ours.
    ours: tuple[str, ...]

    @abstractmethod
    def options(self, job_id: str, version: int) -> Mapping[str, Any]:
        """What a write is given to remember.

        Args:
            job_id: the job's, the same over restarts.
            version: the transaction's; it only grows.
        """

    def has(self, rows: DataFrame, table: str | None, path: str | None, transaction: tuple[str, int]) -> bool:
        """True if a transaction must be skipped here, since the format does not.

        Args:
            rows: what it is to write.
            table: name of the table; None: ``path`` says where it is.
            path: its place.
            transaction: the job's id and the version.
        """
        return False


class SkippedByVersion(TransactionMemory):
    """The format itself skips what it has: Delta, and whatever is declared to do the same."""

    by = f"{_APPLICATION} and {_VERSION}"
    fencing = f"greater {_VERSION}s after a take-over"
    ours = (_APPLICATION, _VERSION)

    def options(self, job_id: str, version: int) -> Mapping[str, Any]:
        return {_APPLICATION: job_id, _VERSION: version}


class FoundInSnapshots(TransactionMemory):
    """Iceberg: a transaction is looked for before it is committed again."""

    by = "properties of the table's snapshots"
    ours = tuple(f"{_PROPERTY}{name}" for name in (_JOB, _TRANSACTION))

    def options(self, job_id: str, version: int) -> Mapping[str, Any]:
        return dict(zip(self.ours, (job_id, version), strict=True))

    def has(self, rows: DataFrame, table: str | None, path: str | None, transaction: tuple[str, int]) -> bool:
        job_id, version = transaction
        return any(
            summary.get(_JOB) == job_id and int(summary.get(_TRANSACTION, -1)) >= version
            for summary in snapshot_summaries(rows.sparkSession, table, path)
        )


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
