"""``format("kafka")``: each row of a checkpoint is a message once, for readers with ``isolation.level=read_committed``.

Rows are staged until their checkpoint is complete.  Tasks then send them, lane by lane (:mod:`.send_lanes`), in
transactions each of which also commits how far it goes (:mod:`.markers`): after a crash of whatever process the same
rows are dealt to the same lanes, and each goes on behind what is sent (:mod:`.sender`).  A single lane is sent by the
driver, which stays connected: a Spark job, and a producer made anew, take longer than a small checkpoint's messages.

So what is atomic is a transaction: a small checkpoint is one, of a large one readers see the first before the last.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .....errors import CheckpointError, OptionError, PlanError
from ....catalyst.columns import column_fold, quoted
from ....catalyst.types.arrow_functions import mapped_in_arrow
from ....jvm.worker_errors import raised_in_workers
from ....storage.filesystem import exists, read_bytes, write_atomically
from ....support.failpoints import failpoint
from ....support.ids import JobId
from ...sink_calls import epochs_of
from ...staging import marker_name
from ..deliveries import Deliveries
from ..per_checkpoint import PerCheckpointSink
from .client import check_config, offsets_are_kept_ms, silence
from .client_options import PREFIX, client_options, not_to_be_had
from .ending_timeout import Patience, SendAbandoned
from .guarantee import OPTION, check_client
from .messages import FORMAT, MessageColumns, check_messages, topic_of
from .probe import probe
from .send_lanes import MOST_LANES, ROWS_PER_LANE, SendLane, lanes_of
from .send_task import SENT_SCHEMA, FileTask, RowTask, SendTask
from .sender import BYTES_PER_TRANSACTION, ROWS_PER_TRANSACTION, Sender

if TYPE_CHECKING:
    from ...staging_folder import StagingFolder
from ...transaction import SinkTransaction

#: Columns that no message has.
_FILE, _ROW, _LANE, _START, _POSITION = "__file", "__row", "__lane", "__start", "__position"
#: How many lanes the driver looks at at a time.
_THREADS = 4
#: How long brokers are waited for when the query is to stop.
_ANSWER_S = 3.0
_STOPPED = "the query was stopped, and the brokers do not answer"


class KafkaSink(PerCheckpointSink):
    """Sends each checkpoint's rows, each once.

    Args:
        schema: the output's columns.
        options: the writer's: ``kafka.*`` and ``topic``.
        deliveries: which of the staged rows are sent.

    Raises:
        OptionError: the sink does not know an option, or sets it itself.
    """

    name = FORMAT
    guarantee = "exactly-once"
    #: From :meth:`open` on.
    _columns: MessageColumns

    def __init__(self, schema: StructType, options: Mapping[str, str], deliveries: Deliveries | None = None) -> None:
        super().__init__(schema, deliveries)
        #: The writer's.
        self.options = dict(options)
        self._topic = topic_of(options)
        for name, text in options.items():
            if name.lower() != "topic" and not name.lower().startswith(PREFIX):
                raise OptionError(
                    f'format "kafka" does not know the option {name} = {text!r}; its options are topic, and {PREFIX}…'
                    " for the client",
                    code="MIXEDMODE_OPTION_UNKNOWN",
                )
        self.fencing = (
            "Kafka lets no earlier producer commit, and the newer driver's markers say that it has taken over"
        )
        if self._topic is None:
            self.fencing += ", once something has been sent (there is no option topic to mark before)"
        self._config = client_options(options)
        #: Who has sent the last checkpoint from here, and may still be connected.
        self._sender: Sender | None = None
        #: The time on the clock on the wall.
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def describe(self) -> str:
        where = "the topic in column topic" if self._topic is None else f"topic {self._topic}"
        return (
            f"kafka, {where}: exactly-once for readers with isolation.level=read_committed, sent when a checkpoint"
            f" completes, in transactions of about {ROWS_PER_TRANSACTION} rows at most, each visible as a whole (a"
            f" checkpoint of up to {ROWS_PER_LANE} rows and {BYTES_PER_TRANSACTION >> 20} MiB is one)"
            f"{self.what_is_delivered}"
        )

    def check(self, spark: SparkSession) -> None:
        check_client()
        check_messages(self.schema, self.options, column_fold(spark))
        if self.deliveries.whole is not None and self.deliveries.whole.arrangement:
            raise PlanError(
                "orderBy and limit do not go with format kafka, exactly-once: rows are sent by several tasks, each as"
                f" they are staged. Set {OPTION} = at-least-once, or use foreachBatch"
            )
        refused = check_config(self._config)
        if refused is not None:
            raise not_to_be_had(*refused)
        super().check(spark)

    def check_place(self, spark: SparkSession) -> None:
        probe(self._config, self._topic)
        if not str(spark.sparkContext.master).startswith("local["):
            _check_workers(spark)

    def open(self, spark: SparkSession, staging: StagingFolder, job_id: JobId) -> None:
        super().open(spark, staging, job_id)
        self._columns = MessageColumns.of(self.schema, self.options, column_fold(spark))

    def fence(self) -> None:
        if not self.branch:
            return
        topics = () if self._topic is None else (self._topic,)
        patience = self._patience()

        def fence() -> None:
            with ThreadPoolExecutor(_THREADS, "mixedmode-fence") as threads:
                list(threads.map(lambda lane: self._driver(lane, patience).fence(topics), range(MOST_LANES)))

        try:
            patience.until_done(fence, cancel=lambda: None)
        except SendAbandoned as error:
            raise CheckpointError(f"older drivers are not kept out of Kafka: {_STOPPED}: {error}") from error

    def hand_over_transaction(self, transaction: SinkTransaction) -> None:
        lanes = lanes_of(transaction.files)
        begun = f"{self.staging.path}/{marker_name('sending', transaction.id)}"
        begun_ms = int(read_bytes(self.staging.filesystem, begun)) if exists(self.staging.filesystem, begun) else None
        if begun_ms is None:
            write_atomically(self.staging.filesystem, begun, str(self.now_ms()).encode())
        failpoint("kafka-before-sending")
        context, tag, patience = self._spark.sparkContext, f"mixedmode-kafka-{uuid.uuid4().hex}", self._patience()

        def send() -> None:
            if begun_ms is not None:
                self._check_remembered(begun_ms, transaction.id)
            context.addJobTag(tag)
            self._send(transaction, lanes, patience)

        try:
            patience.until_done(send, cancel=lambda: context.cancelJobsWithTag(tag))
        except SendAbandoned as error:
            self._sender = None  # the thread that is left behind has it
            raise CheckpointError(
                f"checkpoint {transaction.id} is complete, but its output is not sent to Kafka: {_STOPPED}: {error}."
                " Nothing is lost: the next start sends it before anything else"
            ) from error

    def close(self) -> None:
        self._disconnect()
        super().close()

    def _disconnect(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.disconnect()

    def _send(self, transaction: SinkTransaction, lanes: list[SendLane], patience: Patience) -> None:
        size_bytes = sum(file.size_bytes for file in transaction.files)
        if len(lanes) == 1 and size_bytes <= BYTES_PER_TRANSACTION and not self._must_choose(transaction):
            self._send_here(transaction.unique, lanes[0], patience)
            return
        self._disconnect()  # a task of that lane would fence it
        task = replace(self._task(transaction.unique), known=self._sent_before(lanes, patience))
        patience.pause(0)
        sending = self._chosen(task, transaction, lanes) if self._must_choose(transaction) else self._all(task, lanes)
        with raised_in_workers():
            sending.collect()

    def _send_here(self, token: str, lane: SendLane, patience: Patience) -> None:
        before, task = self._sender, self._task(token)
        sender = self._sender = task.sender(lane.number, lane.rows)
        sender.sleep = patience.pause
        if before is not None:
            sender.follow(before)
        staged = FileTask(task, self.staging.filesystem, self.staging.path, (lane,), tuple(self.schema.fieldNames()))
        sender.send(partial(staged.pieces, lane), keep=True)

    def _patience(self) -> Patience:
        return Patience(self.ending, lambda: silence(self._config, self._topic, _ANSWER_S))

    def _driver(self, lane: int, patience: Patience) -> Sender:
        """Who looks at a lane from here, and sends nothing."""
        sender = self._task("").sender(lane, 0)
        sender.sleep = patience.pause
        return sender

    def _task(self, token: str) -> SendTask:
        return SendTask(self._config, self._columns, self._job_id, self.branch, token, ROWS_PER_TRANSACTION)

    def _sent_before(self, lanes: list[SendLane], patience: Patience) -> frozenset[str]:
        """The transactions that lanes have markers of."""
        with ThreadPoolExecutor(_THREADS, "mixedmode-look") as threads:
            found = threads.map(lambda lane: self._driver(lane.number, patience).tokens(), lanes)
            return frozenset().union(*found)

    def _must_choose(self, transaction: SinkTransaction) -> bool:
        return self.deliveries.key is not None and len(epochs_of(transaction.files)) > 1

    def _all(self, task: SendTask, lanes: list[SendLane]) -> DataFrame:
        """The rows as they are staged, in a task for each lane."""
        send = FileTask(task, self.staging.filesystem, self.staging.path, tuple(lanes), tuple(self.schema.fieldNames()))
        return mapped_in_arrow(self._spark.range(0, len(lanes), 1, len(lanes)), send, SENT_SCHEMA)

    def _chosen(self, task: SendTask, transaction: SinkTransaction, lanes: list[SendLane]) -> DataFrame:
        """Those that no later one replaces, which Spark finds: a lane's in a partition, in their order."""
        rows = self.deliveries.rows(self.frame(transaction.files), epochs_of(transaction.files), (_FILE, _ROW))
        places = [
            (file.name, lane.number, start)
            for lane in lanes
            for file, start in zip(lane.files, lane.starts, strict=True)
        ]
        files = self._spark.createDataFrame(places, f"{_FILE} string, {_LANE} int, {_START} bigint")
        names = [F.col(quoted(name)) for name in self.schema.fieldNames()]
        placed = rows.join(F.broadcast(files), _FILE).select(
            *names, F.col(_LANE), (F.col(_START) + F.col(_ROW)).alias(_POSITION)
        )
        in_lanes = placed.repartitionById(lanes[-1].number + 1, F.col(_LANE)).sortWithinPartitions(_POSITION)
        return mapped_in_arrow(in_lanes, RowTask(task, {lane.number: lane.rows for lane in lanes}), SENT_SCHEMA)

    def _check_remembered(self, begun_ms: int, number: int) -> None:
        """Raise CheckpointError if Kafka may have forgotten how far an earlier attempt had come."""
        gone_by_ms, kept_ms = self.now_ms() - begun_ms, offsets_are_kept_ms(self._config)
        if gone_by_ms < kept_ms:
            return
        raise CheckpointError(
            f"the output of checkpoint {number} began to be sent to Kafka {gone_by_ms // 3_600_000} hours ago,"
            f" and the brokers remember for {kept_ms // 3_600_000} hours how far that came (offsets.retention.minutes):"
            f" what of it is there cannot be told. Set {OPTION} = at-least-once for this start, which sends all of it"
            " (again)"
        )


def _check_workers(spark: SparkSession) -> None:
    """Raise OptionError if a worker has no client."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_client()
        yield from batches

    with raised_in_workers():
        mapped_in_arrow(spark.range(0, 1, 1, 1), look, "id bigint").collect()
