"""Resolves what the writer was given into an output: its format, its output mode, its column names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ....errors import OptionError, PlanError, not_supported
from ....runtime.catalyst.columns import column_fold
from ....runtime.catalyst.struct_fields import repeated_field
from ....runtime.connectors.sinks import Sink, WholeResult, table_format
from ....runtime.connectors.sinks.formats import KNOWN_OPTIONS, format_of, names_of
from ....runtime.spec import Settings
from ...inputs.inputs import Inputs
from ...stages.stage import KeyedStage
from ..graph import StageGraph


@dataclass
class SinkRequest:
    """What the writer was given, besides options."""

    query_name: str | None = None
    format: str | None = None
    foreach_batch: Callable[[DataFrame, int], None] | None = None
    output_mode: str | None = None
    #: By default as Spark's: as fast as possible.
    trigger: dict[str, Any] = field(default_factory=lambda: {"processingTime": "0 seconds"})
    #: Table to append to; None: the format and its options say where.
    table: str | None = None
    partition_by: tuple[str, ...] = ()
    #: The columns as users know them, if several, or fields of a struct, have one name; None: those of the output.
    known: StructType | None = None


def sink_format(spark: SparkSession, request: SinkRequest) -> str:
    """The format's name; in lower case if it is a built-in one."""
    if request.foreach_batch is not None:
        return "foreachBatch"
    stored = table_format(spark, request.table) if request.format is None and request.table else None
    written = (request.format or stored or str(spark.conf.get("spark.sql.sources.default", "parquet"))).strip()
    return written.lower() if format_of(written).is_built_in else written  # a class name must stay as it is


def check_names(spark: SparkSession, request: SinkRequest, format: str) -> None:
    """Raise PlanError if several columns have one name, and the output cannot have that."""
    if request.known is None or (request.table is None and not format_of(format).is_lasting):
        return
    fold = column_fold(spark)
    counts = Counter(map(fold, request.known.names))
    repeated = ", ".join(sorted({name for name in request.known.names if counts[fold(name)] > 1}))
    where = f"format {format}" if request.table is None else f"table {request.table}"
    for column in request.known.fields:
        if not repeated and (name := repeated_field(column.dataType, fold)) is not None:
            raise PlanError(
                f"column {column.name} of the output has structs with two fields named {name}, which {where} cannot"
                f" have; rename one, or use {names_of(lambda one: not one.is_lasting)}",
                code="MIXEDMODE_COLUMN_AMBIGUOUS",
            )
    raise PlanError(
        f"the output has several columns named {repeated}, which {where} cannot have; rename or drop them, or use"
        f" {names_of(lambda one: not one.is_lasting)}",
        code="MIXEDMODE_COLUMN_AMBIGUOUS",
    )


def check_replaceable(sink: Sink, settings: Settings) -> None:
    """Raise OptionError if the job is to replace rows that its output holds, and cannot."""
    option = "execution.sink.existing = 'replace'"
    if settings.sink_existing != "replace":
        return
    if settings.savepoint_path is not None:
        raise OptionError(
            f"{option} does not go with execution.savepoint.path: the job goes on from the savepoint, and the rows that"
            " it wrote before are the beginning of its output. Leave one of the two out",
            code="MIXEDMODE_OPTION_CONFLICT",
        )
    if not sink.can_replace:
        raise OptionError(
            f"{option} is not supported for {sink.name} here: allowed in append mode for"
            f" {names_of(lambda one: one.only_adds)}; of tables for {names_of(lambda one: one.overwrites)}. Remove the"
            " rows yourself, or leave it out",
            code="MIXEDMODE_OPTION_CONFLICT",
        )


def check_update(graph: StageGraph, output_mode: str) -> None:
    """Raise PlanError if a stage makes outputMode update impossible."""
    what = next((stage.refuses_update for stage in graph.stages if stage.refuses_update is not None), None)
    if what is not None and output_mode == "update":
        raise not_supported(
            f"outputMode update is not supported after {what}, as in Spark; use append, or complete with an aggregation"
            " behind it"
        )


def output_mode_of_union(graph: StageGraph, request: SinkRequest, format: str) -> str:
    """The output mode where the rows of several stages are the output.

    Raises:
        PlanError: the union has no whole result, or a stage of it hands on rows that later ones replace.
    """
    mode = request.output_mode or "append"
    if mode == "complete":
        raise not_supported(
            "outputMode complete is not supported for the union of what several keyed stages give, which is no one"
            " aggregation; use append or update, or write each stage with a job of its own"
        )
    if mode == "append":
        return mode
    read = [part.origin for stage in graph.stages for part in stage.inputs.outputs]
    for uid, stage in zip(graph.uids, graph.stages, strict=True):
        if stage in graph.outputs and stage in read:
            raise not_supported(
                f"outputMode update is not supported for this union: rows of stage {uid} go to the sink and to another"
                " stage, which takes rows when they are final; use append"
            )
    check_appended(mode, format)
    return mode


def output_mode_of(stage: KeyedStage, request: SinkRequest, format: str) -> str:
    """What the plan shows; a processor's own mode and the writer's need not be the same, as in Spark.

    A processor hands on what it yields, whatever its mode says; what the sink must be able to do is the writer's.
    """
    written = request.output_mode or "append"
    if stage.refuses_complete is not None and written == "complete":
        raise not_supported(
            f"outputMode complete is not supported {stage.refuses_complete}; use append or update, which are the same"
            " here"
        )
    if stage.output_mode is not None and written == "complete":
        raise not_supported(
            "outputMode complete of the writer is not supported after transformWithState, as in Spark: only an"
            " aggregation has a complete result; use append or update"
        )
    check_appended(written, format)
    return request.output_mode or stage.output_mode or "append"


def check_appended(output_mode: str, format: str) -> None:
    """Raise PlanError if the format cannot take rows that replace others."""
    known = format_of(format)
    replaces = output_mode == "complete" and known.overwrites
    if output_mode != "append" and known.only_adds and not replaces:
        also = " and complete" if known.overwrites else ""
        raise PlanError(
            f"format {format} supports outputMode append{also} only, got {output_mode}: files are never rewritten; use"
            " append, or foreachBatch and merge the rows into a table"
        )


def whole_result(output: Inputs, stage: KeyedStage, output_mode: str, format: str) -> WholeResult | None:
    """How the whole result is shown each time; None: the job does not give it."""
    if output_mode != "complete" or not stage.is_aggregate:  # what a processor calls complete are rows all the same
        if output.arrangement:
            raise PlanError(
                f"{output.arrangement[0].what} is supported behind an aggregate in outputMode complete only, as in"
                f" Spark: in outputMode {output_mode} the rows never are the whole result; use complete, or do it in"
                " whatever reads the output"
            )
        return None
    if not format_of(format).takes_whole_result:
        raise PlanError(
            f"format {format} does not support outputMode complete, which replaces the whole output each time; use"
            f" {names_of(lambda one: one.takes_whole_result and one.name != 'kafka')}, and in its function"
            " overwrite the table, or outputMode update"
        )
    shown = output.shown
    return WholeResult(output.arrangement, None if shown.columns == output.template.columns else shown.schema)


def options_of_replaced(request: SinkRequest, options: dict[str, str]) -> str | None:
    """Take out options of a format that a function has replaced, as Spark ignores them; what to say of it."""
    if request.foreach_batch is None or request.format is None:
        return None
    names = [name for name in options if name.lower() not in KNOWN_OPTIONS]
    for name in names:
        del options[name]
    if not names:
        return None
    return (
        f"no effect: {', '.join(names)}, as a function takes the rows in place of format {request.format}, which was"
        " named before it"
    )
