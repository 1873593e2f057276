"""The part that all tasks have in common which read files in place of Spark and leave runs for the shards' tasks."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa
from pyarrow import fs

from ....state.keys.keygroups import ShardId
from ...jvm.worker.worker_tasks import task_begins, task_context
from ...scan.parquet_scan import FilePart, NotTakenError, ParquetScan
from ..progress import ScanProgress
from ..report import report_batch
from .partial_runs import Buckets
from .worker_heap import keep_heap


class ScannedPart(Protocol):
    """A part of a file, with what the task has to know of it."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the file that belong to it."""


class AttemptReport(Protocol):
    """What an attempt tells the driver."""

    def __init__(self, *, not_taken: str | None = None) -> None: ...

    def to_bytes(self) -> bytes:
        """The report as it is sent."""


Part = TypeVar("Part", bound=ScannedPart)
Report = TypeVar("Report", bound=AttemptReport)


@dataclass(frozen=True, kw_only=True)
class ScanTask(ABC, Generic[Part, Report]):
    """The function handed to ``mapInArrow``.

    Args:
        source: where the files are.
        parts: by partition.
        target: where runs go.
        folder: their folder there.
        name: begins the names of all runs of the pass.
        buckets: how runs are dealt.
        without: shards that nobody asks for.
        memory_bytes: for rows and partial aggregates that are not written yet.
        progress_folder: in the target's file system, where tasks report how far they are; None: they do not.
        whole_bytes: of all scans of the pass, of which this one's tasks tell their part.
    """

    source: fs.FileSystem
    parts: tuple[tuple[Part, ...], ...]
    target: fs.FileSystem
    folder: str
    name: str
    buckets: Buckets
    without: tuple[ShardId, ...]
    memory_bytes: int
    progress_folder: str | None = None
    whole_bytes: int = 1

    report_type: ClassVar[type[AttemptReport]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_begins()
        keep_heap()  # until a shard's task is through with what this one leaves
        for _ in batches:
            pass
        context = task_context()
        number = context.partitionId()
        attempt = f"{self.name}-{number:06d}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}"
        report: AttemptReport
        try:
            report = self.scanned(self.parts[number], attempt, number)
        except NotTakenError as error:
            report = self.report_type(not_taken=str(error))
        yield report_batch(report.to_bytes())

    @abstractmethod
    def scanned(self, parts: Sequence[Part], attempt: str, number: int = 0) -> Report:
        """Scan some parts of files.

        Args:
            parts: them.
            attempt: begins the names of its runs.
            number: of the task.

        Raises:
            NotTakenError: Spark has to.
        """

    @property
    def size_bytes(self) -> int:
        """How much all tasks read."""
        return sum(part.size_bytes for parts in self.parts for part in parts)

    def progress(self, number: int) -> ScanProgress:
        """Reports how far a task is.

        Args:
            number: of the task.
        """
        return ScanProgress(self.target, self.progress_folder, f"{self.name}-{number:06d}", self.whole_bytes)

    def expected_rows(self, scan: ParquetScan, first: FilePart, parts: Sequence[Part]) -> int:
        """About how many rows a task reads, judging by its first file.

        Args:
            scan: what is read of it.
            first: the file.
            parts: all that the task reads.
        """
        whole_bytes = sum(part.size_bytes for part in parts)
        return scan.rows(self.source, first) * whole_bytes // max(first.size_bytes, 1)
