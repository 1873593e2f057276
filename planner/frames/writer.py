"""``writeStream``: where to and how, then ``plan()`` or ``start()``.

Mirrors PySpark's ``DataStreamWriter``: same names, same arguments, each returning the writer.  ``plan()`` and
``start()`` go through one function, so a plan that was printed is the plan that runs; ``start()`` then looks at the
folders, too, and refuses those that it cannot use.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ...errors import OptionError, PlanError, not_supported
from ...runtime.checkpoints.store import has_checkpoint
from ...runtime.connectors.sinks.foreach_rows import RowByRow
from ...runtime.jobs.worker_warmup import start_workers
from ...runtime.query import MixedQuery, start_query
from ...runtime.spec import JobSpec
from ...runtime.storage.filesystem import path_text
from ...runtime.support.notebook_html import facts_html, is_shown
from ...runtime.support.redaction import redacted
from ...runtime.support.terminal import print_plan
from ..inputs.inputs import Inputs
from ..options.file import file_layer, option_text
from ..options.layers import Layer
from ..plans.compile import compile_job, resolved_options
from ..plans.dry_run import is_dry, stop_if_dry
from ..plans.output.sink_request import SinkRequest
from ..plans.plan import ExecutionPlan
from ..stages.stage import check_output_mode
from .dry_run import DryRun, dry_run
from .name_suggestions import no_attribute

logger = logging.getLogger(__name__)

OptionValue = str | int | float | bool | os.PathLike[str] | None


class MixedStreamWriter:
    """Collects the options of the output; returned by ``MixedFrame.writeStream``.

    Example: ``totals.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "ckpt").start()``
    """

    def __init__(self, output: Inputs, known: StructType | None = None) -> None:
        self._output = output
        self._request = SinkRequest(known=known)
        self._file = Layer("options file", {})
        self._explicit = Layer(".option()", {})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

    # -- as DataStreamWriter -------------------------------------------------------------------------------------------

    def queryName(self, queryName: str) -> MixedStreamWriter:
        """Names the query; for format ``memory`` also the table: ``writer.queryName("totals")``."""
        if not isinstance(queryName, str) or not queryName.strip():
            raise PlanError(f"queryName must be a non-empty string, got {queryName!r}")
        self._request.query_name = queryName
        return self

    def format(self, source: str) -> MixedStreamWriter:
        """Sets the sink: parquet (the default), memory, console, noop, kafka, or a format that Spark writes (csv,
        delta, …).

        Among ``format``, :meth:`foreachBatch` and :meth:`foreach` the last call counts, as in Spark.

            writer.format("parquet")
        """
        if not isinstance(source, str) or not source.strip():
            raise PlanError(f"format must be a non-empty string, got {source!r}; use for example 'parquet'")
        self._request.format, self._request.foreach_batch = source, None
        return self

    def option(self, key: str, value: OptionValue) -> MixedStreamWriter:
        """Sets an option of the job (``execution.…``, ``pipeline.…``, ``state.…``, ``sorter.…``) or of the sink.

        Upper and lower case of the key do not matter.  None removes the option.

            writer.option("execution.checkpointing.interval", "10 s")
        """
        if not isinstance(key, str) or not key.strip():
            raise OptionError(f"the name of an option must be a non-empty string, got {key!r}")
        self._explicit = self._explicit.with_value(key, None if value is None else option_text(value))
        return self

    def options(self, **options: OptionValue) -> MixedStreamWriter:
        """Sets several options; pass names with dots as ``**{"execution.runtime-mode": "batch"}``.

        Example: ``writer.options(path="out", checkpointLocation="ckpt")``
        """
        for key, value in options.items():
            self.option(key, value)
        return self

    def optionsFile(self, path: str | os.PathLike[str]) -> MixedStreamWriter:
        """Reads options from a TOML file.  ``.option()`` overrides it, and it overrides ``spark.conf``.

        Example: ``writer.optionsFile("job.toml")``
        """
        self._file = file_layer(path_text("path of optionsFile()", path))
        return self

    def outputMode(self, outputMode: str) -> MixedStreamWriter:
        """Sets what is written: ``append`` (final rows only), ``update`` (changed rows) or ``complete`` (all rows).

        Example: ``writer.outputMode("update")``
        """
        self._request.output_mode = check_output_mode(outputMode, "outputMode", "append, update or complete")
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,
        realTime: str | None = None,
    ) -> MixedStreamWriter:
        """Sets when the live source is read; give exactly one argument.

            writer.trigger(availableNow=True)

        Args:
            processingTime: the interval, such as ``"5 seconds"``; ``"0 seconds"`` (the default): as soon as possible.
            once: True: as ``availableNow``.
            continuous: refused, because such a query has no micro-batches.
            availableNow: True: the job processes all available input and ends.
            realTime: the live phase runs in Spark's Real-Time Mode, with epochs of this length: ``"60 seconds"``, at
                least 5 seconds.  For Kafka to Kafka with one keyed stage, in outputMode ``update``.

        Raises:
            PlanError: none or several were given, or a value is not allowed.
        """
        given = {
            "processingTime": processingTime,
            "once": once,
            "continuous": continuous,
            "availableNow": availableNow,
            "realTime": realTime,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        if len(chosen) != 1:
            raise PlanError(f"trigger takes exactly one of its arguments, got {', '.join(chosen) or 'none'}")
        name, value = next(iter(chosen.items()))
        if name == "continuous":
            raise not_supported(
                f"trigger({name}=…) is not supported: such queries have no micro-batches to run a keyed stage on; use"
                " processingTime or availableNow"
            )
        if name in ("once", "availableNow") and value is not True:
            raise PlanError(f"trigger({name}={value!r}) is not allowed; {name} can only be True")
        if name in ("processingTime", "realTime") and not (isinstance(value, str) and value.strip()):
            raise PlanError(f"trigger({name}={value!r}) is not allowed; give a duration such as '60 seconds'")
        self._request.trigger = chosen
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> MixedStreamWriter:
        """Calls a function with the rows of each epoch (a batch DataFrame) and the id of the call, which only grows.

        Example: ``writer.foreachBatch(lambda rows, batch_id: rows.write.mode("append").saveAsTable("totals"))``
        """
        if not callable(func):
            raise PlanError(f"foreachBatch needs a function of (DataFrame, int), got {func!r}")
        self._request.foreach_batch = func
        return self

    def partitionBy(self, *cols: str | list[str]) -> MixedStreamWriter:
        """Sets the columns by which the format partitions its files; for formats that Spark's DataFrameWriter writes.

        Example: ``writer.partitionBy("country")``
        """
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
        wrong = [name for name in names if not isinstance(name, str) or not name]
        if wrong:
            raise PlanError(f"partitionBy takes names of columns, got {wrong[0]!r}")
        self._request.partition_by = tuple(str(name) for name in names)
        return self

    def uid(self, uid: Any) -> NoReturn:
        """Not supported: raises an error.  Name the keyed stage, before ``writeStream``."""
        raise PlanError(f"uid({uid!r}) names the keyed stage, not its output; call it before writeStream")

    def clusterBy(self, *cols: Any) -> NoReturn:
        """Not supported: raises an error."""
        raise not_supported("clusterBy is not supported; write the layout yourself in foreachBatch")

    def foreach(self, f: Any) -> MixedStreamWriter:
        """Calls a function of a row, or an object with ``process(row)``, for each row in Spark's tasks.

            writer.foreach(print)

        Args:
            f: the function or object.  If an object has ``open(partition_id, epoch_id)`` and ``close(error)``, they are
                called before and after the rows of each partition, with the id of a call of :meth:`foreachBatch`.

        Raises:
            PlanError: ``f`` is neither.
        """
        self._request.foreach_batch = RowByRow(f)
        return self

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: OptionValue,
    ) -> MixedQuery:
        """Starts the job with a table as output: one append per checkpoint.  The table is created if it does not exist.

            writer.option("checkpointLocation", "ckpt").toTable("totals")

        Args:
            tableName: the table, with or without catalog and schema.
            format: the format of its files; None: that of the table, or for a new one the session's default.
            outputMode: as :meth:`outputMode`; None: as set before.
            partitionBy: as :meth:`partitionBy`; None: as set before.
            queryName: as :meth:`queryName`; None: as set before.
            options: as :meth:`options`.

        Raises:
            PlanError: the name is not allowed, or as :meth:`start`.
            OptionError, CheckpointError: as :meth:`start`.
        """
        if not isinstance(tableName, str) or not tableName.strip():
            raise PlanError(f"toTable needs the name of a table, got {tableName!r}")
        self._request.table = tableName
        return self.start(None, format, outputMode, partitionBy, queryName, **options)

    def start(
        self,
        path: str | os.PathLike[str] | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: OptionValue,
    ) -> MixedQuery:
        """Starts the job and returns its handle at once.

            query = writer.start("out")

        Args:
            path: the folder of the output, as option ``path``; None: as set before.
            format: as :meth:`format`; None: as set before.
            outputMode: as :meth:`outputMode`; None: as set before.
            partitionBy: as :meth:`partitionBy`; None: as set before.
            queryName: as :meth:`queryName`; None: as set before.
            options: as :meth:`options`.

        Raises:
            OptionError: an option is unknown, its value is not allowed, or a folder cannot be used.
            PlanError: the job cannot be planned as described, or its sink cannot take the output.
            CheckpointError: the checkpoint location, or the savepoint to start from, belongs to another job.
        """
        self.options(**options)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        if queryName is not None:
            self.queryName(queryName)
        if path is not None:
            self.option("path", path_text("path of start()", path))
        if not is_dry() and resolved_options(self._output, self._file, self._explicit).settings.start_workers:
            start_workers(self._output.spark)  # which takes as long as what follows here
        plan, job = compile_job(self._output, self._request, self._file, self._explicit)
        stop_if_dry(plan, job)
        # All but the first are about the switch, which a job with a checkpoint has behind it.
        warnings = [] if plan.fallback is None else [plan.fallback]
        if plan.warnings and not has_checkpoint(job.checkpoint_location):
            warnings += plan.warnings
        for warning in warnings:
            logger.warning("query %s: %s", self._request.query_name or "without a name", warning)
        return start_query(job)

    # -- ours ----------------------------------------------------------------------------------------------------------

    def plan(self) -> ExecutionPlan:
        """Returns what ``start()`` would do.  Starts nothing and writes nothing: ``print(writer.plan())``."""
        return compile_job(self._output, self._request, self._file, self._explicit)[0]

    def described(self) -> JobSpec:
        """Returns the job as the runtime gets it.  Starts nothing and writes nothing: ``job = writer.described()``."""
        return compile_job(self._output, self._request, self._file, self._explicit)[1]

    def explain(self, extended: bool = False) -> None:
        """Prints the plan.

            writer.explain()

        Args:
            extended: also print how each phase works, all settings, and Spark's plans of the inputs.
        """
        print_plan(self.plan().explain(extended))

    def __repr__(self) -> str:
        facts = (f"{name}: {value}" for name, value in _facts(self._request, self._explicit))
        return f"MixedStreamWriter[{', '.join(facts)}]"

    def _repr_html_(self) -> str:
        return facts_html("MixedStreamWriter", _facts(self._request, self._explicit))

    def dryRun(self, rows: int = 20, sample: int = 1_000) -> DryRun:
        """Returns the plan, and the first rows of the result for a sample of the history.  Writes nothing.

            print(writer.dryRun(rows=5))

        The sample really runs, in a temporary folder, as a history that ends there: windows and timers fire.  A
        coordinator is opened and closed.  The live source is not read.

        Args:
            rows: the number of result rows to return.
            sample: the number of rows of each history to use: the first ones after ``select`` and ``where``.

        Raises:
            OptionError: as of :meth:`start`.
            PlanError: as of :meth:`start`, or a number is less than 1.
            UserCodeError: a processor raised an exception.
            QueryError: the run over the sample failed.
        """
        return dry_run(self._output, self._request, self._file, self._explicit, rows=rows, sample=sample)


def _facts(request: SinkRequest, explicit: Layer) -> list[tuple[str, str]]:
    """What a writer was given so far, by name."""
    function = "foreach" if isinstance(request.foreach_batch, RowByRow) else "foreachBatch"
    facts = {
        "query name": request.query_name,
        "format": request.format if request.foreach_batch is None else function,
        "table": request.table,
        "output mode": request.output_mode,
        "partitioned by": ", ".join(request.partition_by) or None,
        "trigger": ", ".join(f"{name} = {value}" for name, value in request.trigger.items()),
        **{name: redacted(value) if is_shown(name) else "(not shown)" for name, value in explicit.values.items()},
    }
    return [(name, str(value)) for name, value in facts.items() if value is not None]
