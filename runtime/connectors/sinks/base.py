"""The sink contract: output is staged by tasks, and made visible by the driver.

When rows become visible, and how often, are two things:

- A sink that shows rows at once gets them by :meth:`Sink.deliver` after each epoch (the backlog is one); what an epoch
  has shown is shown again if it must be repeated, so such a sink is *at-least-once*.
- For every other sink the staged files belong to a transaction that is part of a checkpoint.  :meth:`Sink.commit` is
  called when that checkpoint is complete, and again after a recovery from it, always with the same files.  A sink whose
  commit is idempotent by the transaction's id is *exactly-once*; one that cannot tell is at-least-once too.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from ...support.ids import EpochNumber, JobId
from ..output_place import OutputPlace
from ..sink_calls import epochs_of
from ..staged_output import StagedOutput
from ..staging import StagedFile, epoch_of
from ..staging_folder import StagingFolder
from ..transaction import SinkTransaction
from .deliveries import Deliveries
from .file_formats import check_stageable
from .output_writers import OutputWriters, Replacement, WritingJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Guarantee = Literal["exactly-once", "at-least-once"]


class Flag(Protocol):
    """Something that comes to pass, as a ``threading.Event`` says it."""

    def is_set(self) -> bool:
        """Whether it has."""


class Sink(ABC):
    """Where a query's rows go.  ``open`` is called before anything else."""

    name: str
    guarantee: Guarantee
    #: Folder of the output as the user wrote it; None: it has none.
    path: str | None = None
    #: True: rows go out by deliver() after each epoch; False: by commit() with their checkpoint.
    shows_at_once: bool = False
    #: False: nobody will ever see a row.
    takes_rows: bool = True
    #: One call of the sink gets the rows of all epochs of a checkpoint; False: each epoch has a call of its own.
    merges_epochs: bool = True
    #: Output columns by which files are laid out, if that is done when they are staged.
    partition_by: tuple[str, ...] = ()
    #: The branch of the location that the run works in, set before :meth:`open`; 0 unless a driver had to take over.
    branch: int = 0
    #: Says whether the run is to end, which is set before :meth:`open`; None: nobody will end it.
    ending: Flag | None = None
    #: How an older driver that wakes up is kept from handing rows over; None: only by its own clock.
    fencing: str | None = None
    #: Whether the first commit can take away the rows that the output holds.
    can_replace: bool = False
    #: The job, set before :meth:`open`; None: the output does not remember who has written to it.
    writer: WritingJob | None = None
    #: Whether rows of before go with the next commit, set before :meth:`open`; None: they never do.
    replacement: Replacement | None = None

    #: From :meth:`open` on: the session, which job it is, the same over restarts, and where tasks stage rows.
    _spark: SparkSession
    _job_id: JobId
    staging: StagingFolder

    def __init__(self, schema: StructType, deliveries: Deliveries | None = None) -> None:
        #: The columns that tasks stage.
        self.staged_schema = schema
        #: Which of the staged rows go out, and under which names.
        self.deliveries = deliveries or Deliveries()
        #: The columns that go out.
        self.schema = self.deliveries.schema(schema)
        #: Called right before each step that others can see; raises if this driver may not do it any more.
        self.guard: Callable[[], None] = lambda: None
        #: The call of a user's function that has not returned, in words; None: there is none.
        self.call_in_hand: str | None = None

    def open(self, spark: SparkSession, staging: StagingFolder, job_id: JobId) -> None:
        """Prepare for a run.

        Args:
            spark: the session.
            staging: where tasks stage rows; sinks may choose another place.
            job_id: which job it is, the same over restarts.
        """
        self._spark, self._job_id = spark, job_id
        self.staging = staging

    @property
    def staging_path(self) -> str | None:
        """Folder of the output if it is staged below that; None: it is staged in the checkpoint location."""
        return None

    @property
    def output(self) -> OutputPlace:
        """Where tasks put their output."""
        return OutputPlace(self.staging.filesystem, self.staging.path)

    @property
    def shared_folder(self) -> str | None:
        """A folder besides the checkpoint location that tasks write to and the driver reads; None: there is none."""
        return None

    def writers(self, spark: SparkSession) -> OutputWriters | None:
        """The jobs that have written to the output; None: it does not remember them."""
        return None

    def has_rows(self, spark: SparkSession) -> bool:
        """Whether readers of the output would find rows in it now; asked only of one that knows its writers."""
        return False

    @property
    def replaces_now(self) -> bool:
        """Whether the next commit takes away the rows of before."""
        return self.replacement is not None and self.replacement.is_due

    @abstractmethod
    def describe(self) -> str:
        """One line for explain(), with the guarantee."""

    def check(self, spark: SparkSession) -> None:
        """Raise if this session cannot write what was asked for; called while the job is planned.

        Raises:
            OptionError: the format, or one of its options, is not to be had here.
            PlanError: the format does not take the output's columns.
        """
        check_stageable(spark, self.staged_schema)

    def check_place(self, spark: SparkSession) -> None:
        """Raise OptionError if there is no writing to where the output goes; called before the job starts."""
        return None

    def commit(self, transaction: SinkTransaction) -> None:
        """Make a complete transaction visible; idempotent.

        Sinks that show rows at once get one only if the job had another sink when it was staged.
        """
        for epoch in epochs_of(transaction.files):
            self.deliver(epoch, [file for file in transaction.files if epoch_of(file.name) == epoch])

    def deliver(self, epoch: EpochNumber, files: Sequence[StagedFile]) -> None:
        """Hand over one epoch's rows (sinks that show rows at once)."""
        self.staging.discard(files)

    def fence(self) -> None:
        """Keep older drivers out, if this kind of output can: called by one that took over, when it has recovered."""
        return None

    def remove_older_branches(self) -> None:
        """Remove what older drivers have staged outside of the location."""
        return None

    def end_input(self) -> None:
        """No more rows will be staged: all input has ended.  Not called if the job only stops."""
        return None

    def finish(self) -> None:
        """Called after :meth:`end_input`; the final checkpoint, with the last rows, comes after it."""
        return None

    def close(self) -> None:
        """Nothing more will be committed in this run; not called if the run fails."""
        return None

    def stage_nothing(self, epoch: EpochNumber) -> list[StagedFile]:
        """A file without rows, by which a transaction says that the whole result has none."""
        output = self.output.open(f"e{epoch:08d}-w0000-{uuid.uuid4().hex}", self.staged_schema)
        return output.finish(even_without_rows=True) if isinstance(output, StagedOutput) else []

    def frame(self, files: Sequence[StagedFile]) -> DataFrame:
        """Staged rows as a batch DataFrame."""
        return self.staging.frame(self._spark, self.staged_schema, files)
