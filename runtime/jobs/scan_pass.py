"""Base of the passes whose tasks read files in place of Spark: their runs, their job, and the way back."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
from pyarrow import fs

from ...errors import PlanError
from ..catalyst.spark_session import PrivateSession
from ..catalyst.types.arrow_functions import mapped_in_arrow
from ..jvm.partition_jobs import collected_by_partition
from ..scan.engines import AUTO, LEAST_BYTES
from ..scan.parquet_scan import NotTakenError
from ..storage.filesystem import delete_quietly, read_bytes, write_atomically
from ..support.ids import RunId
from ..tasks.report import REPORT_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..operators.contract import KeyedOperator
    from ..spec import Settings

logger = logging.getLogger(__name__)


class TaskReport(Protocol):
    """What a task that reads files tells."""

    @property
    def not_taken(self) -> str | None:
        """Why Spark has to read; None: it need not."""


Report = TypeVar("Report", bound=TaskReport)


@dataclass(frozen=True)
class ScanPlace:
    """Where tasks leave what they read for a stage, and from which size on they read."""

    #: The folder of their runs, of this stage alone.
    folder: str
    #: Where it is remembered that scans were stopped, until the backlog is over; None: nowhere.
    stopped_folder: str | None = None
    #: By ``execution.backlog.engine`` = ``auto`` Spark reads files that have less together.
    least_bytes: int = LEAST_BYTES


@dataclass(frozen=True)
class ScanPass:
    """A sorted pass whose tasks read files.

    Args:
        spark: the session.
        operator: the stage's.
        settings: the job's.
        filesystem: where runs go.
        place: where there.
        max_parallelism: number of key groups.
        run_id: of this run.
        progress_folder: where tasks report how far they are; None: nobody looks.
        few_rows: for jobs that have a row for each task; None: the session itself.
    """

    spark: SparkSession
    operator: KeyedOperator
    settings: Settings
    filesystem: fs.FileSystem
    place: ScanPlace
    max_parallelism: int
    run_id: RunId
    progress_folder: str | None = None
    few_rows: PrivateSession | None = None

    def discard(self) -> None:
        """Remove the runs, also those of attempts that have lost."""
        delete_quietly(self.filesystem, self.place.folder)

    def check_not_stopped(self, scans: object) -> None:
        """Raise if tasks of an earlier run of this backlog have scanned the same in vain.

        Args:
            scans: all that is scanned, which says by its ``repr`` what that is.

        Raises:
            NotTakenError: they have; says why.
        """
        path = self._stopped(scans)
        if path is not None and self.filesystem.get_file_info(path).type == fs.FileType.File:
            why = bytes(read_bytes(self.filesystem, path)).decode(errors="replace")
            raise NotTakenError(f"a scan of an earlier run was stopped: {why}")

    def _stopped(self, scans: object) -> str | None:
        """The file that says that a scan was stopped; None: it is not remembered."""
        if self.place.stopped_folder is None or self.settings.backlog_engine != AUTO:
            return None
        digest = hashlib.sha256(f"{self.operator.uid} {scans!r}".encode()).hexdigest()
        return f"{self.place.stopped_folder}/{digest[:32]}"

    def leave_to_spark(self, error: NotTakenError, scans: object = None) -> None:
        """Remove the runs, and say why Spark reads.

        Args:
            error: the reason.
            scans: what tasks have scanned in vain, which a later run does not scan again; None: nothing.

        Raises:
            PlanError: Spark may not read: ``execution.backlog.engine`` names another engine.
        """
        self.discard()
        engine = self.settings.backlog_engine
        if engine != AUTO:
            raise PlanError(
                f"execution.backlog.engine = {engine} cannot be had for stage {self.operator.uid}: {error};"
                " use auto, which leaves to Spark what is not known to be the same"
            ) from error
        if scans is None:
            logger.info("Spark reads for stage %s: %s", self.operator.uid, error)
            return
        path = self._stopped(scans)
        if path is not None and self.filesystem.get_file_info(path).type == fs.FileType.NotFound:
            self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            write_atomically(self.filesystem, path, str(error).encode())
        logger.warning("Spark instead of Arrow reads the backlog of stage %s: %s", self.operator.uid, error)

    def reports(
        self,
        task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        tasks: int,
        read: Callable[[bytes], Report],
    ) -> list[Report]:
        """Run a Spark job, and return what its tasks report.

        Args:
            task: what each does; it knows its number from Spark.
            tasks: how many there are.
            read: makes a report of its bytes.

        Raises:
            NotTakenError: a task says that Spark has to read.
        """
        spark = self.spark if self.few_rows is None else self.few_rows.session
        places = mapped_in_arrow(spark.range(0, tasks, 1, tasks), task, REPORT_SCHEMA)
        at_once = self.settings.backlog_max_cores
        rows = places.collect() if at_once is None else collected_by_partition(places, at_once)
        reports = [read(bytes(row[0])) for row in rows]
        if (why := next((report.not_taken for report in reports if report.not_taken is not None), None)) is not None:
            raise NotTakenError(why)
        return reports
