"""Plans where a job's rows go: locations that do not meet, the sink, and how rows are handed over."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....runtime.connectors.late_rows import OPTION as LATE_PATH
from ....runtime.connectors.sinks import Deliveries, Sink, SinkSpec, check_guarantee, make_sink
from ....runtime.connectors.sinks.formats import format_of
from ....runtime.connectors.sinks.table_checks import table_folder
from ....runtime.operators.output_transform import OutputTransform
from ....runtime.spec import Settings
from ...inputs.inputs import Inputs
from ...stages.output_transform import check_order_column, output_key
from ..graph import StageGraph
from ..plan import SinkPlan
from .folders import (
    check_apart,
    check_goes_on,
    check_local_folders,
    check_no_credentials,
    check_not_read,
    check_not_streamed,
    check_replaced,
    checkpoint_location,
    checkpoints_in_output,
)
from .sink_request import SinkRequest, check_replaceable, options_of_replaced, whole_result


@dataclass(frozen=True)
class OutputRequest:
    """The output of a job, as far as it is known before its sink is."""

    graph: StageGraph
    #: What comes out of the last stage.
    output: Inputs
    #: What is done to rows behind the last stage; None: nothing.
    output_transform: OutputTransform | None
    request: SinkRequest
    format: str
    output_mode: str
    settings: Settings


@dataclass(frozen=True)
class PlannedOutput:
    """A sink that has been checked, and the location of its job's checkpoints."""

    sink: Sink
    location: str | None
    warnings: tuple[str | None, ...]

    @property
    def plan(self) -> SinkPlan:
        """The same for people."""
        return SinkPlan(
            name=self.sink.name,
            description=self.sink.describe(),
            guarantee=self.sink.guarantee,
            fencing=self.sink.fencing,
            warning="; ".join(filter(None, self.warnings)) or None,
        )


def plan_output(asked: OutputRequest, options: dict[str, str]) -> PlannedOutput:
    """The sink of a job, checked.

    Args:
        asked: the output.
        options: those that the format gets; what is not for it is taken out.

    Raises:
        OptionError: an option, or a location, is not allowed.
        PlanError: the sink cannot take the rows.
    """
    spark, settings, request = asked.graph.last.inputs.spark, asked.settings, asked.request
    given = _take(options, "checkpointLocation")
    location = checkpoint_location(spark, request.query_name, asked.format, given, options)
    check_goes_on(asked.format, asked.output_mode, location)
    replaced = options_of_replaced(request, options)
    path = _take(options, "path")
    # What ignores the path has nothing there.
    used_path = None if request.table is None and not format_of(asked.format).is_lasting else path
    _check_places(asked, path, used_path, location)
    for one in asked.graph.outputs:
        check_order_column(settings.sink_order_column, one, asked.output_transform)
    sink = make_sink(
        SinkSpec(
            asked.graph.last.output_schema if asked.output_transform is None else asked.output_transform.schema,
            asked.format,
            path=path,
            options=options,
            query_name=request.query_name,
            foreach_batch=request.foreach_batch,
            table=request.table,
            partition_by=request.partition_by,
            transactional=settings.sink_transactional,
            guarantee=settings.sink_delivery_guarantee,
            deliveries=_deliveries(asked),
        )
    )
    check_guarantee(sink, settings.sink_delivery_guarantee)
    check_replaceable(sink, settings)
    sink.check(spark)
    return PlannedOutput(sink, location, (replaced, checkpoints_in_output(location, used_path)))


def _check_places(asked: OutputRequest, path: str | None, used_path: str | None, location: str | None) -> None:
    """Raise OptionError if two of a job's locations meet, or one tells credentials."""
    settings = asked.settings
    is_sparks = asked.request.table is not None or not format_of(asked.format).is_built_in
    others = {
        "checkpointLocation": location,
        LATE_PATH: settings.late_data_path,
        "execution.savepoint.on-sigterm": settings.savepoint_on_sigterm,
    }
    check_no_credentials(path=path, **others, **{"execution.savepoint.path": settings.savepoint_path})
    check_apart(path=used_path, path_is_sparks=is_sparks, **others)
    read = [(part.name, part.frame) for part in asked.graph.lanes.parts]
    check_not_read(read, path=None if is_sparks else used_path, **others)
    if is_sparks:
        check_not_streamed(read, _sparks_folder(asked, used_path))
    if settings.sink_existing == "replace":
        check_replaced(used_path, read, **others)
    check_local_folders(settings, read, path=used_path, **others)


def _sparks_folder(asked: OutputRequest, path: str | None) -> dict[str, str | None]:
    """The folder to which Spark adds files, by the name of what says it."""
    table = asked.request.table
    if table is not None:
        return {"toTable": table_folder(asked.graph.last.inputs.spark, table)}
    return {"path": path if format_of(asked.format).is_files else None}


def _deliveries(asked: OutputRequest) -> Deliveries:
    """What is handed over per checkpoint: all rows, or of each key the last; of a key that is gone every update."""
    graph, request, stage = asked.graph, asked.request, asked.graph.last
    all_rows = Deliveries(
        order_column=asked.settings.sink_order_column,
        whole=whole_result(asked.output, stage, asked.output_mode, asked.format),
        known=request.known,
    )
    if asked.output_mode != "update" or not any(one.is_aggregate for one in graph.outputs):
        return all_rows
    if len(graph.outputs) > 1:  # a row of one is not replaced by one of another
        return replace(all_rows, key_is_gone=True)
    per_epoch = request.table is None and request.foreach_batch is None and format_of(asked.format).is_built_in
    key = stage.output_key if per_epoch else output_key(stage, asked.output.parts[0])
    return replace(all_rows, key=key, key_is_gone=key is None)


def _take(options: dict[str, str], name: str) -> str | None:
    """Take an option out, whatever its case."""
    for written in options:
        if written.lower() == name.lower():
            return options.pop(written)
    return None
