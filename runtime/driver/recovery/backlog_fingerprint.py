"""Computes a digest of a backlog: two runs with the same digest compute the same shards.

Reusing a shard of an earlier run is right only if its rows, the operator and the layout are the same.  When that cannot
be told (rows that are not files, Python UDFs, non-deterministic expressions, a processor typed into a notebook), there
is no digest and nothing is reused: starting over is slow, mixing two backlogs is wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from typing import Any

import pyarrow
import pyspark
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from ...catalyst.spark_expressions import class_name
from ...catalyst.spark_plans import analyzed, contains, input_files, leaves, parts_without, whole_plans
from ...catalyst.spark_session import session_settings
from ...scan.expressions.translations import TRANSLATION_VERSION
from ...spark_io.spark_sources import PlannedSource
from ...spec import JobSpec, LaneRead, StageEdge, StageSpec
from ...storage.filesystem import resolve

#: Leaves of a plan whose rows are a function of the plan and the files alone.
_FILES_LEAF = "LogicalRelation"
_ROWS_LEAF = "LocalRelation"
_PURE_LEAVES = {_FILES_LEAF, "Range", "OneRowRelation"}
#: What Spark calls code whose rows it does not vouch for.
_UNSTABLE = ("PYTHON_UDF", "CURRENT_LIKE", "SCALA_UDF")
_EXPRESSION_ID = re.compile(r"#\d+L?")
#: Objects of the connector in a plan's text, with what tells two of one process apart; the options stand beside them.
_KAFKA_OBJECTS = re.compile(r"(StreamingRelationV2 [\w.$]+)@[0-9a-f]+(, kafka, [\w.$]+)@[0-9a-f]+")


def backlog_fingerprint(job: JobSpec, parallelism: int, max_parallelism: int) -> str | None:
    """Digest of everything that decides what the shards of the backlog hold; None: it cannot be told."""
    stages = [_stage(stage, job.planning) for stage in job.stages]
    bounded = [lane.history for lane in job.lanes if lane.history is not None]
    histories = [_frame(history) for history in bounded]
    live = None if job.live is None else _frame(job.live)
    templates = () if job.output_transform is None else job.output_transform.templates
    transforms = [_frame(template, is_template=True) for template in templates]
    transform = transforms if len(transforms) > 1 else next(iter(transforms), None)
    read = [(job.live, live), (job.output_transform, transform)]
    if (
        None in stages
        or None in histories
        or None in transforms
        or any(what is not None and known is None for what, known in read)
    ):
        return None
    settings = job.settings
    parts = {
        "stages": stages,
        "histories": histories,
        "live": live,
        "tail": transform,
        "output": [job.sink.name, job.staged_form.model_dump()],
        "layout": [parallelism, max_parallelism],
        "modes": [
            settings.runtime_mode,
            {stage.uid: stage.final_watermark for stage in job.stages},
            settings.timers,
            settings.backlog_limits,
            [phase.kind for phase in job.phases],
        ],
        "live inputs": [repr(one) for one in job.live_inputs],
        "session": [job.planning.conf.get(name) for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")],
        "settings": sorted(one for one in session_settings(job.planning).items() if _changes_results(one[0])),
        "engine": [
            settings.backlog_engine,
            job.scan_least_bytes,
            settings.backlog_float_sums,
            pyarrow.__version__,
            TRANSLATION_VERSION,
        ],
        "versions": [pyspark.__version__, sys.version],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _changes_results(setting: str) -> bool:
    return setting.startswith(("spark.sql.legacy.", "spark.sql.parquet.", "spark.sql.decimalOperations."))


def _stage(stage: StageSpec, spark: SparkSession) -> Any:
    """What a stage computes, and of which rows of earlier ones; None: it cannot be told."""
    operator, edges = stage.operator.fingerprint(), [_edge(edge) for edge in stage.edges]
    template = stage.operator.template(spark)
    asked = None if template is None else _frame(template, is_template=True)
    if operator is None or None in edges or (template is not None and asked is None):
        return None
    reads = [_read(read) for read in stage.reads]
    if None in reads:
        return None
    times = [stage.event_time, stage.watermark_delay_ms, dict(stage.delays_ms), stage.timeless, stage.has_lone_history]
    return [stage.uid, operator, asked, stage.operator.key_group_places, *times, edges, reads]


def _read(read: LaneRead) -> Any:
    steps = None if read.template is None else _frame(read.template)
    return None if read.template is not None and steps is None else [read.lane, steps]


def _edge(edge: StageEdge) -> Any:
    steps = None if edge.template is None else _frame(edge.template, is_template=True)
    return None if edge.steps and steps is None else [edge.origin, edge.delay_ms, edge.has_watermark, steps]


def _frame(frame: DataFrame, *, is_template: bool = False) -> Any:
    """A frame's plan without expression ids, and the names, sizes and times of the files of all that is no stream.

    What a stream has given is in its position.

    Args:
        frame: the frame.
        is_template: one of its leaves is without rows, and stands for those that an earlier stage will hand on.
    """
    plan, spark = analyzed(frame), frame.sparkSession
    if is_template and [class_name(leaf) for leaf in leaves(plan)].count(_ROWS_LEAF) != 1:
        return None  # another one holds rows that the plan's text does not show

    def is_given(leaf: Any) -> bool:
        return bool(leaf.isStreaming()) or (is_template and class_name(leaf) == _ROWS_LEAF)

    fixed = parts_without(plan, is_given)
    read = [(class_name(leaf), leaf) for part in fixed for leaf in leaves(part)]
    if not {kind for kind, _ in read} <= _PURE_LEAVES:
        return None
    if not plan.deterministic() or contains(spark, plan, *_UNSTABLE):
        return None
    listing: list[Any] = []
    names = set[str]()
    for kind, leaf in read:
        if kind == _FILES_LEAF:
            relation, source = leaf.relation(), PlannedSource(leaf)
            if source.kafka_begins is not None:  # messages between two offsets are what they are
                listing.append(["kafka", sorted(source.options.items())])
                continue
            if class_name(relation) != "HadoopFsRelation":
                return None
            listing.append([relation.fileFormat().toString(), relation.options().toString()])
            # All that it lists: which of them a condition leaves out only Spark's optimizer would say.
            names.update(input_files(spark, relation))
    for name in sorted(names):
        try:
            filesystem, path = resolve(name)
            info = filesystem.get_file_info(path)
        except (ValueError, OSError):
            return None
        if info.type == fs.FileType.NotFound:  # Spark names files by URIs, with characters encoded
            return None
        listing.append([name, info.size, info.mtime_ns])
    return [_plan_text(frame, plan), listing]


def _plan_text(frame: DataFrame, plan: Any) -> str:
    """The whole plan as text."""
    with whole_plans(frame.sparkSession):
        return _KAFKA_OBJECTS.sub(r"\1\2", _EXPRESSION_ID.sub("#", plan.treeString()))
