"""Writes a checkpoint's output through Spark's ``DataFrameWriter``: all formats and tables that Spark can append to.

csv, json, orc, jdbc, Delta, a registered Python data source: what a batch job could append to, a running query can.
Spark does not tell such a writer that it has seen these rows before, so after a failure between the append and its
acknowledgement they are appended again: at-least-once.

A *transactional* format closes that gap: it remembers transactions together with their rows
(:mod:`.transaction_memory`).  The application id is the job's, the same over restarts; the version is the transaction's
ordinal, which only grows, also when somebody puts the job back to an older checkpoint.  A driver that takes over from
one that may still be running goes on with greater versions than any that the other can give, and begins by appending
nothing under the first of them: what the other hands over later is skipped, by formats that skip.

The whole result, if that is what is delivered, takes the place of the one before, by one commit of the format.  So does
the first commit of a job that is to replace what the output holds; Spark's formats of files remove that before they
write, so of such an output nothing can be seen for a moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ....errors import OptionError, SetupError
from ...catalyst.columns import column_fold
from ...catalyst.spark_session import activate, empty_frame
from ...jvm.spark_errors import spark_says
from ...spark_io.connector_packages import package_hint
from ...spark_io.spark_formats import data_source
from ...support.failpoints import failpoint
from ..sink_calls import epochs_of
from ..transaction import first_ordinal
from .base import Guarantee
from .batch_writers import check_batch_writer
from .deliveries import Deliveries
from .file_formats import (
    check_hadoop_folder,
    check_jdbc,
    check_partition_columns,
    check_rows_writable,
    file_format,
)
from .formats import format_of, names_of
from .kafka.few_messages import few_messages
from .kafka.messages import FORMAT as KAFKA
from .kafka.messages import check_messages, topic_of
from .lake_checks import check_lake
from .output_folder import OutputFolder
from .output_writers import HadoopFolder, OutputWriters
from .per_checkpoint import DeliverySink
from .table_checks import check_table
from .transaction_memory import TransactionMark, memory_of

if TYPE_CHECKING:
    from ..transaction import SinkTransaction


class SparkWriterSink(DeliverySink):
    """Appends each checkpoint's rows to a path, to a table, or to wherever the format's options point.

    Args:
        schema: the output's columns.
        format: name of the format, as for ``DataFrameWriter.format``.
        path: folder or file to append to; None: the options say it all, or ``table`` does.
        table: table to append to (it is created if it does not exist); None: no table of the catalog.
        options: go to the writer as they are.
        partition_by: columns by which the format lays rows out.
        transactional: whether the format honours ``txnAppId`` and ``txnVersion``; None: if it is known to.
        deliveries: which of the staged rows are appended.
    """

    def __init__(
        self,
        schema: StructType,
        format: str,
        *,
        path: str | None = None,
        table: str | None = None,
        options: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        transactional: bool | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        super().__init__(schema, deliveries)
        self.name = format
        self.path = path
        self.table = table
        #: The writer's.
        self.options = dict(options or {})
        self._partition_by = tuple(partition_by)
        self._memory = memory_of(format, transactional)
        self.guarantee: Guarantee = "at-least-once" if self._memory is None else "exactly-once"
        self.fencing = None if self._memory is None else self._memory.fencing
        self._writers: OutputWriters | None = None
        not_theirs = () if self._memory is None else self._memory.ours
        ours = [name for name in self.options if name.lower() in {one.lower() for one in not_theirs}]
        if ours:
            raise OptionError(
                f"option {ours[0]} = {self.options[ours[0]]!r} is set by the job itself, to its own id and the"
                f" checkpoint's; leave it out, or set execution.sink.transactional to false"
            )

    @property
    def can_replace(self) -> bool:  # type: ignore[override]
        """Formats of files, which Spark overwrites, and tables that are overwritten by one commit."""
        known = format_of(self.name)
        return self.deliveries.whole is None and (known.overwrites if self.table is not None else known.needs_path)

    def _remembers(self, spark: SparkSession) -> bool:
        """Whether who has written is kept beside the files: in a folder of files, which need not be Spark's alone."""
        is_folder = self.path is not None and self.table is None and self.deliveries.whole is None
        return is_folder and (self.name.lower() == "delta" or file_format(spark, self.name) is not None)

    def writers(self, spark: SparkSession) -> OutputWriters | None:
        if self._writers is None and self._remembers(spark):
            assert self.path is not None, "it is a folder"
            self._writers = OutputWriters(HadoopFolder(spark, self.path, self.options))
        return self._writers

    def has_rows(self, spark: SparkSession) -> bool:
        return self.path is not None and OutputFolder(spark, "path", self.path, self.path).has_files()

    def describe(self) -> str:
        if self._is_kafka:
            topic = topic_of(self.options)
            return (
                f"kafka, {'the topic in column topic' if topic is None else f'topic {topic}'}: at-least-once (messages"
                f" of a checkpoint may be sent again after a failure), sent when it completes{self.what_is_delivered}"
            )
        where = f" in table {self.table}" if self.table else f" in {self.path}" if self.path else ""
        how = (
            "at-least-once (rows of a checkpoint may be appended again after a failure)"
            if self._memory is None
            else f"exactly-once by {self._memory.by}"
        )
        done = "overwritten by one commit" if self._replaces else "appended"
        return f"{self.name}{where}: {how}, {done} when a checkpoint completes{self.what_is_delivered}"

    def check(self, spark: SparkSession) -> None:
        try:
            data_source(spark, self.name)
        except Exception as error:
            hint = package_hint(self.name, spark.version)
            if hint is not None:
                raise SetupError(
                    f"format {self.name!r} is not known to this session\nSpark downloads a package only when its JVM"
                    f" starts: {hint}",
                    code="MIXEDMODE_CONNECTOR_MISSING",
                ) from error
            raise OptionError(
                f"format {self.name!r} is not supported; use one of {names_of(lambda one: one.is_built_in)}, any"
                " that this session can write (csv, json, orc, jdbc, a registered Python data source, delta with its"
                f" package, …), or foreachBatch. Spark says: {spark_says(error)}"
            ) from error
        if self.table is None:
            check_batch_writer(spark, self.name)
        if self.table is None and not self.path and format_of(self.name).needs_path:
            raise OptionError(
                f'format "{self.name}" needs a path: .option("path", …) or .start(path), or a table: .toTable(…)',
                code="MIXEDMODE_LOCATION_MISSING",
            )
        if self._is_kafka:
            check_messages(self.schema, self.options, column_fold(spark))
        check_partition_columns(self._partition_by, self.schema, column_fold(spark))
        check_rows_writable(spark, self.name, self.schema, self.options, self._partition_by)
        if self.table is None:
            check_jdbc(spark, self.name, self.options)
        if self.table is not None:
            check_table(spark, self.table, self.name, self.schema, self._partition_by)
        check_lake(spark, self.name, (self.table, self.path), self.schema, self._partition_by, self.options)
        super().check(spark)

    @property
    def _replaces(self) -> bool:
        """Whether what was written before goes away: messages stay."""
        return self.deliveries.whole is not None and not self._is_kafka

    @property
    def _is_kafka(self) -> bool:
        return self.table is None and self.name.lower() == KAFKA

    def check_place(self, spark: SparkSession) -> None:
        if self.path and self.table is None and file_format(spark, self.name) is not None:
            check_hadoop_folder(spark, self.path, self.options)
            OutputFolder(spark, "path", self.path, self.path).check_shown(self._partition_by, column_fold(spark))

    def fence(self) -> None:
        if self.fencing is not None and self.branch:
            nothing = self._spark.createDataFrame([], self.schema)
            self._write(nothing, TransactionMark(self._job_id, first_ordinal(self.branch)), replaces=False)

    def commit(self, transaction: SinkTransaction) -> None:
        replaces = self.replaces_now
        if replaces and not transaction.files:
            self.hand_over(empty_frame(self._spark, self.schema), transaction)
        super().commit(transaction)
        if replaces:
            assert self.replacement is not None, "it is due"
            failpoint("sink-before-replaced")
            self.replacement.done()

    def hand_over_transaction(self, transaction: SinkTransaction) -> None:
        few = None
        if self._is_kafka and self.deliveries.is_as_staged(epochs_of(transaction.files)):
            few = few_messages(self._spark, self.staging, self.staged_schema, transaction.files)
        if few is None:
            super().hand_over_transaction(transaction)
        else:
            self.hand_over(few, transaction)

    def hand_over(self, rows: DataFrame, transaction: SinkTransaction) -> None:
        # Spark looks a data source of Python's up in this thread's session, and in no other.
        activate(self._spark)
        mark = TransactionMark.of(self._job_id, transaction, self.branch)
        writers = None if self.writer is None else self.writers(rows.sparkSession)
        if writers is not None and self.writer is not None:
            writers.sign(self.writer)
        replaces = self._replaces or self.replaces_now
        self._write(rows, mark, replaces=replaces)
        if replaces and writers is not None and self.writer is not None:
            writers.sign_again(self.writer)  # Spark removes the whole folder to overwrite it

    def _write(self, rows: DataFrame, mark: TransactionMark, *, replaces: bool) -> None:
        options = dict(self.options)
        if self._memory is not None:
            if self._memory.has(rows, self.table, self.path, mark):
                return
            options |= self._memory.options(mark)
        if replaces and self.table is not None and rows.sparkSession.catalog.tableExists(self.table):
            # The older writer would make another table, without what somebody has set for this one.
            rows.writeTo(self.table).options(**options).overwrite(F.lit(True))
            return
        mode = "overwrite" if replaces and self.table is None else "append"
        if mode == "overwrite" and self.replaces_now:
            options["partitionOverwriteMode"] = "static"  # whatever the session says: all rows go
        writer = rows.write.format(self.name).mode(mode).options(**options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        if self.table is not None:
            (writer.option("path", self.path) if self.path else writer).saveAsTable(self.table)
        else:
            writer.save(self.path)
