"""Turns output that an earlier run has staged into what this run's sink takes.

The last output of a run may not have been shown when the job is started again: the sink failed, or the process was
killed.  If the job has other aliases, fewer columns, another layout or another sink since, its rows are staged anew,
file by file in Spark tasks, and a file beside the checkpoint's ``_metadata`` names what was made of them.  From then on
the transaction is that file's, so it is shown once whatever is killed, and another change after it begins with it.

Invariants: epochs and the order of rows in a file stay, since deliveries go by both; nothing that an earlier run has
shown is staged again, and what readers of a folder see of a transaction has one form; staged files are removed only
when those made of them are named.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ....errors import CheckpointError
from ...catalyst.types.arrow_functions import mapped_in_arrow
from ...catalyst.types.arrow_types import arrow_schema
from ...checkpoints.metadata import CheckpointMetadata
from ...checkpoints.store import CheckpointStore
from ...connectors.delivery_marks import DeliveryMarks
from ...connectors.output_place import OutputPlace
from ...connectors.staged_form import StagedColumn, StagedForm, columns_of, sources_of
from ...connectors.staged_output import SPARK_SCHEMA, partition_values
from ...connectors.staging import StagedFile, check_staged, epoch_of, staging_folder, writer_number
from ...connectors.transaction import SinkTransaction
from ...jvm.worker.worker_tasks import task_context
from ...jvm.worker_errors import raised_in_workers
from ...spec import JobSpec
from ...storage.filesystem import delete_quietly, exists, resolve
from ...support.failpoints import failpoint
from ...support.ids import JobId
from ...tasks.report import REPORT_SCHEMA, report_batch


def check_showable(job: JobSpec, store: CheckpointStore, metadata: CheckpointMetadata) -> None:
    """Raise CheckpointMismatchError if a checkpoint has output to be shown that this job has no columns for."""
    transaction = store.restaged(metadata.checkpoint_id) or metadata.transaction
    if transaction.form is not None and not store.is_committed(metadata.checkpoint_id):
        mine = job.staged_form
        old = _Old.of(store, transaction, mine, metadata.job_id)
        if old.must_be_made_anew(mine, job.sink.takes_rows) and old.left:
            sources_of(mine.columns, old.form.columns, _what(metadata))


def pending_transaction(job: JobSpec, store: CheckpointStore, metadata: CheckpointMetadata) -> SinkTransaction:
    """A checkpoint's output that was perhaps not shown, whole, and in the form of this job's sink, which is open.

    Raises:
        CheckpointMismatchError: the job has no columns for it.
        CorruptStateError: a file is not as it was staged.
        CheckpointError: a file is gone.
    """
    transaction = store.restaged(metadata.checkpoint_id) or metadata.transaction
    mine = job.staged_form
    old = _Old.of(store, transaction, mine, metadata.job_id)
    check_staged(old.filesystem, old.folder, transaction.files)
    if not old.must_be_made_anew(mine, job.sink.takes_rows):
        return transaction
    sources = sources_of(mine.columns, old.form.columns, _what(metadata)) if old.left else []
    made = _restaged(job, old, sources)
    failpoint("restaged-before-named")
    other = transaction.model_copy(update={"files": made, "form": mine, "token": transaction.unique})
    store.write_restaged(metadata.checkpoint_id, other)
    failpoint("restaged-named")
    if old.folder == job.sink.staging.path:
        for file in old.left:
            delete_quietly(old.filesystem, f"{old.folder}/{file.name}")
    else:  # the job has left it, with all that its attempts had there
        delete_quietly(old.filesystem, old.folder)
    return other


def _what(metadata: CheckpointMetadata) -> str:
    return f"the output of checkpoint {metadata.checkpoint_id}"


@dataclass(frozen=True)
class _Old:
    """A transaction as an earlier run has left it."""

    transaction: SinkTransaction
    form: StagedForm
    filesystem: fs.FileSystem
    #: Where its files are staged.
    folder: str
    #: Where its sink shows them; None: not as files.
    target: str | None

    @classmethod
    def of(cls, store: CheckpointStore, transaction: SinkTransaction, mine: StagedForm, job_id: JobId) -> _Old:
        form = transaction.form
        # Before it was recorded it was where the sink has it.
        path = mine.path if form is None else form.path
        if path is not None and mine.path is not None and not exists(*resolve(path)):
            path = mine.path  # the output was moved, with what is staged there
        filesystem, folder, target = store.filesystem, store.output, None
        if path is not None:
            filesystem, target = resolve(path)
            folder = staging_folder(target, job_id, store.branch.number)
        known = _form_of_files(filesystem, folder, transaction, mine) if form is None else form
        return cls(transaction, known.model_copy(update={"path": path}), filesystem, folder, target)

    def must_be_made_anew(self, mine: StagedForm, is_taken: bool) -> bool:
        """True if the job's sink cannot show it as it is.

        Raises:
            CheckpointError: a file is gone.
        """
        files = self.transaction.files
        if self.form == mine or not files or not is_taken:
            return False
        if self._marks.is_complete:
            return True
        # If readers see a part of it in that very folder, the rest must not look different.
        return len(self.left) == len(files) or self.form.path != mine.path or self.target is None

    @property
    def _marks(self) -> DeliveryMarks:
        return DeliveryMarks(self.filesystem, self.folder, self.transaction)

    @cached_property
    def left(self) -> list[StagedFile]:
        """The files that no reader has seen."""
        return [file for file in self._marks.files_left() if not self._has_shown(file)]

    def _has_shown(self, file: StagedFile) -> bool:
        if exists(self.filesystem, f"{self.folder}/{file.name}"):
            return False
        number = self.transaction.id
        if self.target is not None and exists(self.filesystem, f"{self.target}/{file.shown_as(number)}"):
            return True
        raise CheckpointError(
            f"transaction {number} names {file.name}, which is not in {self.folder} and was not shown: somebody removed"
            " it; restore it, or use a new checkpointLocation"
        )


def _form_of_files(
    filesystem: fs.FileSystem, folder: str, transaction: SinkTransaction, mine: StagedForm
) -> StagedForm:
    """What staged files themselves say, which is all that older versions have recorded."""
    for file in transaction.files:
        path = f"{folder}/{file.name}"
        if exists(filesystem, path):
            with filesystem.open_input_file(path) as stream:
                entry = pq.read_schema(stream).metadata[SPARK_SCHEMA]
            columns = columns_of(StructType.fromJson(json.loads(entry)), None)
            as_mine = tuple(StagedColumn(name=column.name, type=column.type) for column in mine.columns)
            as_ever = columns == as_mine and not mine.partition_by
            return mine if as_ever else StagedForm(columns=columns, path=mine.path)
    return mine


def _restaged(job: JobSpec, old: _Old, sources: list[int]) -> tuple[StagedFile, ...]:
    files = old.left
    if not files:
        return ()
    task = RestageTask(
        old.filesystem,
        old.folder,
        tuple(file.name for file in files),
        tuple(old.form.columns[source].name for source in sources),
        job.sink.output,
        job.output_schema,
        uuid.uuid4().hex[:8],
    )
    reports = _run(job.spark, task, len(files))
    return tuple(StagedFile(**file) for report in reports for file in json.loads(report))


def _run(spark: SparkSession, task: RestageTask, files: int) -> list[str]:
    """The reports of the tasks, one for each file."""
    with raised_in_workers():
        rows = mapped_in_arrow(spark.range(0, files, 1, files), task, REPORT_SCHEMA).collect()
    return [bytes(row[0]).decode() for row in rows]


@dataclass(frozen=True)
class RestageTask:
    """The function handed to ``mapInArrow``: one staged file a row; writes attempt-private files, as any task."""

    filesystem: fs.FileSystem
    folder: str
    names: tuple[str, ...]
    #: The staged columns, in the order of the output's.
    columns: tuple[str, ...]
    output: OutputPlace
    schema: StructType
    unique: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        for place in [place for batch in batches for place in batch.column(0).to_pylist()]:
            files = self.made(self.names[place], self.name(place, context.taskAttemptId()))
            yield report_batch(json.dumps([asdict(file) for file in files]).encode())

    def name(self, place: int, attempt: int) -> str:
        """What an attempt makes of the file at a place: epoch and writer stay, since deliveries go by both."""
        epoch, writer = epoch_of(self.names[place]), writer_number(self.names[place])
        return f"e{epoch:08d}-s{writer:04d}-f{place:04d}-{self.unique}-{attempt}"

    def made(self, source: str, name: str) -> list[StagedFile]:
        """What one file becomes."""
        schema = arrow_schema(self.schema)
        output = self.output.open(name, self.schema)
        try:
            with self.filesystem.open_input_file(f"{self.folder}/{source}") as stream:
                staged = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
                constants = partition_values(staged.schema_arrow)
                for batch in staged.iter_batches():
                    columns = [
                        constants[column].take(pa.array([0] * len(batch)))
                        if column in constants
                        else batch.column(batch.schema.get_field_index(column))
                        for column in self.columns
                    ]
                    typed = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
                    output.write(pa.RecordBatch.from_arrays(typed, schema=schema))
            return output.finish()
        except BaseException:
            output.abort()
            raise
