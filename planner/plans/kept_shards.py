"""Finds stages that keep rows in their shards: those whose key contains the key of the stage before.

If each column of the earlier key becomes a column of the later key, unchanged, the later stage takes its key groups
from these columns alone.  All rows of one of its keys are then in one shard of the stage before, and nothing has to be
moved.  Whether Spark leaves them there is its own affair, so it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ...runtime.catalyst.columns import holds_floats
from ...runtime.catalyst.spark_buckets import hash_partitioned
from ...runtime.catalyst.spark_expressions import attribute_id, is_attribute, items
from ...runtime.catalyst.spark_plans import analyzed, contains, output_of
from ...runtime.catalyst.types.arrow_functions import mapped_in_arrow
from ...runtime.jobs.shuffle import InPlace, with_key_group
from ...runtime.operators.contract import KeyedOperator
from ...runtime.operators.emission_watermark import EMITTED_COLUMN, emitted_schema
from ...runtime.spark_io.parquet import read_parquet
from ...runtime.spec import Settings, StageSpec
from ..inputs.analysis import over_template
from ..stages.output_transform import rows_of_the_stage
from ..stages.stage import ANY_EPOCH

if TYPE_CHECKING:
    from ..stages.stage import KeyedStage

#: Shards of the job that Spark is asked about; all numbers that are possible give the same plan.
_SHARDS = 2


def with_key_groups(
    stages: Sequence[KeyedStage], specs: Sequence[StageSpec], settings: Settings
) -> tuple[StageSpec, ...]:
    """The stages of a job, each in the key groups of the one before it where its key contains that one's.

    Args:
        stages: as described, in topological order.
        specs: the same as the runtime gets them, in key groups of their whole keys.
        settings: of the job.
    """
    found: dict[str, StageSpec] = {}
    for stage, spec in zip(stages, specs, strict=True):
        found[spec.uid] = spec
        if len(spec.edges) != 1 or not InPlace.is_possible(settings.max_parallelism, 1):
            continue
        earlier = found[spec.edges[0].origin].operator
        edge = replace(spec.edges[0], key_places=key_places(stage, earlier))
        places = edge.key_groups_of(earlier)
        if places is None:
            continue
        placed = replace(spec, operator=spec.operator.in_key_groups_by(places), edges=(edge,))
        if _stay(stage.inputs.spark, placed, earlier):
            found[spec.uid] = placed
    return tuple(found.values())


def key_places(stage: KeyedStage, earlier: KeyedOperator) -> tuple[int | None, ...]:
    """For each key column of the earlier stage the place of the key column that it becomes, unchanged, or None.

    Args:
        stage: the later stage.
        earlier: the earlier stage's operator.

    Returns:
        Nothing where the rows need not be of the earlier stage's key, or come from elsewhere, too.
    """
    part, *others = stage.inputs.parts
    if others or part.origin is None or not earlier.output_key_columns:
        return ()
    spark, plan = stage.inputs.spark, analyzed(part.frame)
    if contains(spark, plan, "PYTHON_UDF"):  # it may need what only the user's session has
        return ()
    template = part.origin.template
    ids = [attribute_id(attribute) for attribute in output_of(template)]
    known = over_template(spark, plan, ids)
    become: dict[str, int] = {}
    for attribute, name in zip(items(plan.output()), part.frame.columns, strict=True):
        expression = known.get(attribute_id(attribute))
        if name in stage.key_inputs and expression is not None and is_attribute(expression):
            become.setdefault(template.columns[ids.index(attribute_id(expression))], stage.key_inputs.index(name))
    # Floats that are equal may differ in bits, and each grouping makes them alike for itself.
    types = {field.name: field.dataType for field in template.schema.fields}
    return tuple(None if holds_floats(types[name]) else become.get(name) for name in earlier.output_key_columns)


def earlier_shards(spec: StageSpec, specs: Sequence[StageSpec], settings: Settings, parallelism: int) -> str | None:
    """The stage in whose shards the rows of one stay; None: they are moved.

    Args:
        spec: the stage.
        specs: all stages.
        settings: of the job.
        parallelism: number of shards.
    """
    if len(spec.edges) != 1 or not InPlace.is_possible(settings.max_parallelism, parallelism):
        return None
    earlier = next(one for one in specs if one.uid == spec.edges[0].origin)
    return earlier.uid if spec.keeps_key_groups_of(earlier.operator) else None


def _stay(spark: SparkSession, spec: StageSpec, earlier: KeyedOperator) -> bool:
    """Whether Spark leaves rows of the earlier stage where they are, as it would plan the stage's job."""
    way, operator = InPlace(spark, _SHARDS), spec.operator
    none = read_parquet(spark, emitted_schema(earlier.output_schema))
    try:
        files = hash_partitioned(none, earlier.key_group_outputs, _SHARDS)
        rows = spec.edges[0].over(files, emitted=EMITTED_COLUMN in operator.sort_columns)
        prepared = with_key_group(operator.prepare(way.adopt(rows), ANY_EPOCH), operator, _SHARDS)
        return way.holds(mapped_in_arrow(prepared, rows_of_the_stage, prepared.schema))
    except AnalysisException:  # it names what only the user's session has
        return False
