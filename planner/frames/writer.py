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

from ...errors import OptionError, PlanError
from ...runtime.checkpoints.store import has_checkpoint
from ...runtime.connectors.sinks.foreach_rows import RowByRow
from ...runtime.platform.cells import facts_html, is_shown
from ...runtime.platform.filesystem import path_text
from ...runtime.platform.redaction import redacted
from ...runtime.platform.terminal import print_plan
from ...runtime.query import MixedQuery, start_query
from ...runtime.spec import JobSpec
from ..inputs.inputs import Inputs
from ..options.file import file_layer, option_text
from ..options.layers import Layer
from ..plans.compile import compile_job
from ..plans.dry_run import stop_if_dry
from ..plans.plan import ExecutionPlan
from ..plans.sink_request import SinkRequest
from ..stages.stage import check_output_mode
from .dry_run import DryRun, dry_run
from .nearest import no_attribute

logger = logging.getLogger(__name__)

OptionValue = str | int | float | bool | os.PathLike[str] | None
#: Spark's own: as fast as possible.
_DEFAULT_TRIGGER = {"processingTime": "0 seconds"}


class MixedStreamWriter:
    """Collects what the user wants of the output; made by ``MixedFrame.writeStream``."""

    def __init__(self, output: Inputs, known: StructType | None = None) -> None:
        self._output = output
        self._known = known
        self._name: str | None = None
        self._format: str | None = None
        self._output_mode: str | None = None
        self._trigger: dict[str, Any] = dict(_DEFAULT_TRIGGER)
        self._foreach_batch: Callable[[DataFrame, int], None] | None = None
        self._partition_by: tuple[str, ...] = ()
        self._table: str | None = None
        self._file = Layer("options file", {})
        self._options: dict[str, str] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

    # -- as DataStreamWriter -------------------------------------------------------------------------------------------

    def queryName(self, queryName: str) -> MixedStreamWriter:
        """Name the query; the name of the table for format ``memory``."""
        if not isinstance(queryName, str) or not queryName.strip():
            raise PlanError(f"queryName must be a non-empty string, got {queryName!r}")
        self._name = queryName
        return self

    def format(self, source: str) -> MixedStreamWriter:
        """The kind of sink: parquet (the default), memory, console, noop, or any that Spark writes (csv, delta, …).

        Of calls of ``format``, :meth:`foreachBatch` and :meth:`foreach` the last one counts, as in Spark.
        """
        if not isinstance(source, str) or not source.strip():
            raise PlanError(f"format must be a non-empty string, got {source!r}; use for example 'parquet'")
        self._format, self._foreach_batch = source, None
        return self

    def option(self, key: str, value: OptionValue) -> MixedStreamWriter:
        """Set one option of the job (``execution.…``, ``pipeline.…``, ``state.…``, ``sorter.…``) or of the sink.

        Keys are compared without case; None takes the option back.
        """
        if not isinstance(key, str) or not key.strip():
            raise OptionError(f"the name of an option must be a non-empty string, got {key!r}")
        for written in [written for written in self._options if written.lower() == key.lower()]:
            del self._options[written]
        if value is not None:
            self._options[key] = option_text(value)
        return self

    def options(self, **options: OptionValue) -> MixedStreamWriter:
        """Set several options; names with dots go in as ``**{"execution.runtime-mode": "batch"}``."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def optionsFile(self, path: str | os.PathLike[str]) -> MixedStreamWriter:
        """Take options from a TOML file; ``.option()`` wins over it, it wins over ``spark.conf``."""
        self._file = file_layer(path_text("path of optionsFile()", path))
        return self

    def outputMode(self, outputMode: str) -> MixedStreamWriter:
        """What is written: ``append`` (final rows only), ``update`` (changed rows) or ``complete`` (all rows)."""
        self._output_mode = check_output_mode(outputMode, "outputMode", "append, update or complete")
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
        """When the live source is read; exactly one of them.

        Args:
            processingTime: as often as this, a duration such as ``"5 seconds"``; ``"0 seconds"`` is at once.
            once: True: as ``availableNow``.
            continuous: refused, as such a query has no micro-batches.
            availableNow: True: what is there is read, and the job ends.
            realTime: refused, as ``continuous``.

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
        if name in ("continuous", "realTime"):
            raise PlanError(
                f"trigger({name}=…) is not supported: such queries have no micro-batches to run a keyed stage on; use"
                " processingTime or availableNow",
                code="MIXEDMODE_NOT_SUPPORTED",
            )
        if name in ("once", "availableNow") and value is not True:
            raise PlanError(f"trigger({name}={value!r}) is not allowed; {name} can only be True")
        if name == "processingTime" and not (isinstance(value, str) and value.strip()):
            raise PlanError(f"trigger(processingTime={value!r}) is not allowed; give a duration such as '5 seconds'")
        self._trigger = chosen
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> MixedStreamWriter:
        """Call a function with the rows of each epoch (a batch DataFrame) and the id of the call, which only grows."""
        if not callable(func):
            raise PlanError(f"foreachBatch needs a function of (DataFrame, int), got {func!r}")
        self._foreach_batch = func
        return self

    def partitionBy(self, *cols: str | list[str]) -> MixedStreamWriter:
        """Columns by which the format lays rows out; for formats that Spark's DataFrameWriter writes."""
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
        wrong = [name for name in names if not isinstance(name, str) or not name]
        if wrong:
            raise PlanError(f"partitionBy takes names of columns, got {wrong[0]!r}")
        self._partition_by = tuple(str(name) for name in names)
        return self

    def uid(self, uid: Any) -> NoReturn:
        """Not here: the keyed stage is named before ``writeStream``."""
        raise PlanError(f"uid({uid!r}) names the keyed stage, not its output; call it before writeStream")

    def clusterBy(self, *cols: Any) -> NoReturn:
        """Not supported."""
        raise PlanError(
            "clusterBy is not supported; write the layout yourself in foreachBatch", code="MIXEDMODE_NOT_SUPPORTED"
        )

    def foreach(self, f: Any) -> MixedStreamWriter:
        """Have each row taken in Spark's tasks, by a function of a row or by an object with ``process(row)``.

        Args:
            f: the function or object; an object's ``open(partition_id, epoch_id)`` and ``close(error)``, if it has
                them, are called around the rows of each partition, with the id of a call of :meth:`foreachBatch`.

        Raises:
            PlanError: it is neither.
        """
        self._foreach_batch = RowByRow(f)
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
        """Start the job with a table as its output: one append per checkpoint; it is created if it does not exist.

        Args:
            tableName: the table, with catalog and schema or without.
            format: of its files; None: the table's own, or for a new one the session's default.
            outputMode: as :meth:`outputMode`; None: as it was set.
            partitionBy: as :meth:`partitionBy`; None: as it was set.
            queryName: as :meth:`queryName`; None: as it was set.
            options: as :meth:`options`.

        Raises:
            PlanError: that is no name, or as :meth:`start`.
            OptionError, CheckpointError: as :meth:`start`.
        """
        if not isinstance(tableName, str) or not tableName.strip():
            raise PlanError(f"toTable needs the name of a table, got {tableName!r}")
        self._table = tableName
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
        """Start the job; returns at once with its handle.

        Args:
            path: folder of the output, as option ``path``; None: as it was set.
            format: as :meth:`format`; None: as it was set.
            outputMode: as :meth:`outputMode`; None: as it was set.
            partitionBy: as :meth:`partitionBy`; None: as it was set.
            queryName: as :meth:`queryName`; None: as it was set.
            options: as :meth:`options`.

        Raises:
            OptionError: an option is unknown, or its value is not allowed, or a folder cannot be used.
            PlanError: the job cannot be planned as described, or its sink cannot take what comes out.
            CheckpointError: the checkpoint location, or the savepoint to begin with, is not for this job.
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
        plan, job = self._compile()
        stop_if_dry(plan, job)
        # They are about the switch, which a job with a checkpoint has behind it.
        for warning in () if has_checkpoint(job.checkpoint_location) else plan.warnings:
            logger.warning("query %s: %s", self._name or "without a name", warning)
        return start_query(job)

    # -- ours ----------------------------------------------------------------------------------------------------------

    def plan(self) -> ExecutionPlan:
        """What ``start()`` would do; starts nothing and writes nothing."""
        return self._compile()[0]

    def described(self) -> JobSpec:
        """The job as the runtime gets it; nothing is started and nothing written."""
        return self._compile()[1]

    def explain(self, extended: bool = False) -> None:
        """Print the plan.

        Args:
            extended: with how each phase works, all settings, and Spark's plans of the inputs.
        """
        print_plan(self.plan().explain(extended))

    def _asked(self) -> list[tuple[str, str]]:
        """What was asked for so far, by name."""
        said = {
            "query name": self._name,
            "format": self._format if self._foreach_batch is None else self._function_kind,
            "table": self._table,
            "output mode": self._output_mode,
            "partitioned by": ", ".join(self._partition_by) or None,
            "trigger": ", ".join(f"{name} = {value}" for name, value in self._trigger.items()),
            **{name: redacted(value) if is_shown(name) else "(not shown)" for name, value in self._options.items()},
        }
        return [(name, str(value)) for name, value in said.items() if value is not None]

    @property
    def _function_kind(self) -> str:
        return "foreach" if isinstance(self._foreach_batch, RowByRow) else "foreachBatch"

    def __repr__(self) -> str:
        return f"MixedStreamWriter[{', '.join(f'{name}: {value}' for name, value in self._asked())}]"

    def _repr_html_(self) -> str:
        return facts_html("MixedStreamWriter", self._asked())

    def dryRun(self, rows: int = 20, sample: int = 1_000) -> DryRun:
        """The plan, and the first rows of the result for a sample of the history; writes nothing, claims no location.

        The sample is run for real, in a temporary place, as a history that ends there: windows and timers fire.  A
        coordinator is opened and closed.  Of the live source nothing is read.

        Args:
            rows: how many rows of the result to give.
            sample: how many rows of each history to take, the first that are found behind ``select`` and ``where``.

        Raises:
            OptionError: as of :meth:`start`.
            PlanError: as of :meth:`start`, or a number is less than 1.
            UserCodeError: a processor has raised.
            QueryError: the run over the sample has failed.
        """
        explicit = Layer(".option()", dict(self._options))
        return dry_run(self._output, self._request(), self._file, explicit, rows=rows, sample=sample)

    def _request(self) -> SinkRequest:
        return SinkRequest(
            query_name=self._name,
            format=self._format,
            foreach_batch=self._foreach_batch,
            output_mode=self._output_mode,
            trigger=dict(self._trigger),
            table=self._table,
            partition_by=self._partition_by,
            known=self._known,
        )

    def _compile(self) -> tuple[ExecutionPlan, JobSpec]:
        return compile_job(self._output, self._request(), self._file, Layer(".option()", dict(self._options)))
