"""``writeStream.dryRun``: the plan, and what the job makes of the first rows of its history; nothing is written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.types import StructType

from ...errors import MixedModeError, PlanError, QueryError
from ...runtime.query import start_query
from ...runtime.spec import JobSpec
from ...runtime.support.notebook_html import facts_html, table_html
from ..inputs.inputs import Inputs
from ..options.layers import NAME_SPACES, Layer
from ..plans.compile import compile_job
from ..plans.other_sources import sampled_inputs
from ..plans.output.sink_request import SinkRequest
from ..plans.plan import ExecutionPlan


@dataclass(frozen=True)
class DryRun:
    """The plan of a job, and the first rows of its result for a sample; prints as both.

    For example:

        tried = writer.dryRun()
        tried.rows
    """

    #: What ``start()`` would do.
    plan: ExecutionPlan
    #: The first rows of the result.
    rows: list[Row]
    #: Their columns.
    schema: StructType
    #: How many rows of the history it was made of.
    sampled_rows: int
    #: How many rows that result has in all.
    result_rows: int

    def __str__(self) -> str:
        return f"{self.plan.explain()}\n\n{self._heading}\n{_table(self.rows, self.schema)}"

    def _repr_html_(self) -> str:
        rows = table_html(self.schema.fieldNames(), ([_cell(value) for value in row] for row in self.rows))
        return f"{self.plan._repr_html_()}{facts_html(self._heading, [])}{rows}"

    @property
    def _heading(self) -> str:
        if not self.sampled_rows:
            return "There is no row of a history to try it on."
        shown = f"{len(self.rows)} of {self.result_rows}" if self.result_rows > len(self.rows) else f"{len(self.rows)}"
        return (
            f"{shown} rows of the result for the first {self.sampled_rows} rows of the history, as if all ended there:"
        )


def dry_run(output: Inputs, request: SinkRequest, file: Layer, explicit: Layer, *, rows: int, sample: int) -> DryRun:
    """Plan a job, and run it over a sample in a temporary place.

    Args:
        output: what comes out of the last stage.
        request: where it would go.
        file: options from a file.
        explicit: options that were given to the writer.
        rows: how many rows of the result to give.
        sample: how many rows of each history to take.

    Raises:
        OptionError, PlanError: as of ``start()``, or a number is not allowed.
        UserCodeError: a processor has raised.
        QueryError: the run has failed.
    """
    for name, number in (("rows", rows), ("sample", sample)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise PlanError(f"dryRun({name}={number!r}) is not allowed; give a number of at least 1")
    plan = _planned(output, request, file, explicit)
    few, sampled_rows = sampled_inputs(output, sample)
    found: list[Row] = []
    counts = [0]

    def take(some: DataFrame, number: int) -> None:
        taken = some.collect()
        counts[0] += len(taken)
        found.extend(taken[: rows - len(found)])

    job = _over_sample(few, request, file, explicit, take)
    if sampled_rows:
        with failing_by_its_cause():
            query = start_query(job)
            try:
                query.awaitTermination()
            finally:
                query.stop()
    return DryRun(plan, found, job.sink.schema, sampled_rows, counts[0])


@contextmanager
def failing_by_its_cause() -> Iterator[None]:
    """Raise why a query has failed, instead of that it has, if that is known to be something of ours or the user's."""
    try:
        yield
    except QueryError as error:
        cause = error.__cause__
        if isinstance(cause, MixedModeError):
            raise cause from cause.__cause__
        raise


def _planned(output: Inputs, request: SinkRequest, file: Layer, explicit: Layer) -> ExecutionPlan:
    """The plan, whether or not the writer knows where to write yet."""
    options = {name.lower() for layer in (file, explicit) for name in layer.values}
    has_place = bool(request.format or request.table or request.foreach_batch or "path" in options)
    if not has_place:
        request = replace(request, format="noop")
    if "checkpointlocation" in options:
        return compile_job(output, request, file, explicit)[0]
    return compile_job(output, request, file, _with_location(explicit))[0].model_copy(
        update={"checkpoint_location": None}
    )


def _over_sample(
    few: Inputs, request: SinkRequest, file: Layer, explicit: Layer, take: Callable[[DataFrame, int], Any]
) -> JobSpec:
    """The job over the sample: its rows go to ``take``, all else to a temporary place."""
    request = replace(
        request,
        query_name=None if request.query_name is None else f"{request.query_name} (dry run)",
        format=None,
        foreach_batch=take,
        table=None,
        partition_by=(),
        trigger={"availableNow": True},
    )
    job = compile_job(few, request, _ours(file), _with_location(_ours(explicit)))[1]
    settings = job.settings.model_copy(update={"savepoint_path": None, "late_data_path": None})
    return replace(job, settings=settings, late_rows=None, checkpoint_location=None)


def _with_location(layer: Layer) -> Layer:
    """The options with a checkpoint location, which is not looked at: they say that there is one."""
    return replace(layer, values={**layer.values, "checkpointLocation": f"{tempfile.gettempdir()}/mixedmode-dry-run"})


def _ours(layer: Layer) -> Layer:
    """The options of a layer that are not the sink's."""
    kept = {name: value for name, value in layer.values.items() if name.lower().startswith(NAME_SPACES)}
    return replace(layer, values=kept)


def _table(rows: list[Row], schema: StructType) -> str:
    """Rows as text, as ``show()`` prints them."""
    if not rows:
        return "(no rows)"
    cells = [schema.fieldNames(), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    rule = "+" + "+".join("-" * width for width in widths) + "+"
    lines = ["|" + "|".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "|" for row in cells]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
