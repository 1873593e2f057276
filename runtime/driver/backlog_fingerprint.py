"""What a backlog is made of, as one digest: two runs with the same digest compute the same shards.

Reusing a shard of an earlier run is right only if its rows, the operator and the layout are the same.  When that cannot
be told (rows that are not files, Python UDFs, non-deterministic expressions, a processor typed into a notebook), there
is no digest and nothing is reused: starting over is slow, mixing two backlogs is wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pyspark
from pyarrow import fs

from ..platform.filesystem import resolve
from ..platform.spark_expressions import class_name
from ..platform.spark_plans import analyzed, contains, leaves, whole_plans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..spec import JobSpec

#: Leaves of a plan whose rows are a function of the plan and the files alone.
_FILES_LEAF = "LogicalRelation"
_PURE_LEAVES = {_FILES_LEAF, "Range", "OneRowRelation"}
#: What Spark calls code whose rows it does not vouch for.
_UNSTABLE = ("PYTHON_UDF", "CURRENT_LIKE", "SCALA_UDF")
_EXPRESSION_ID = re.compile(r"#\d+L?")


def backlog_fingerprint(job: JobSpec, parallelism: int, max_parallelism: int) -> str | None:
    """Digest of everything that decides what the shards of the backlog hold; None: it cannot be told."""
    operator = job.operator.fingerprint()
    history = None if job.history is None else _frame(job.history, files=True)
    live = None if job.live is None else _frame(job.live, files=False)
    if operator is None or (job.history is not None and history is None) or (job.live is not None and live is None):
        return None
    settings = job.settings
    parts = {
        "operator": operator,
        "history": history,
        "live": live,
        "output": [job.sink.name, job.staged_form.model_dump()],
        "layout": [parallelism, max_parallelism],
        "modes": [settings.runtime_mode, settings.final_watermark, [phase.kind for phase in job.phases]],
        "watermark": [job.stage.event_time, job.stage.watermark_delay_ms, [repr(one) for one in job.live_inputs]],
        "session": [job.spark.conf.get("spark.sql.session.timeZone"), job.spark.conf.get("spark.sql.ansi.enabled")],
        "versions": [pyspark.__version__, sys.version],
    }
    return _digest(json.dumps(parts, sort_keys=True, default=str).encode())


def _frame(frame: DataFrame, *, files: bool) -> Any:
    """A frame's plan without expression ids and, with ``files``, the names, sizes and times of its files."""
    plan = analyzed(frame)
    read = [(class_name(leaf), leaf) for leaf in leaves(plan)]
    if files and not {kind for kind, _ in read} <= _PURE_LEAVES:
        return None
    if not plan.deterministic() or contains(frame.sparkSession, plan, *_UNSTABLE):
        return None
    text = _plan_text(frame, plan)
    if not files:
        return text
    listing: list[Any] = []
    for kind, leaf in read:
        if kind == _FILES_LEAF:
            relation = leaf.relation()
            if class_name(relation) != "HadoopFsRelation":
                return None
            listing.append([relation.fileFormat().toString(), relation.options().toString()])
    for name in sorted(frame.inputFiles()):
        try:
            filesystem, path = resolve(name)
            info = filesystem.get_file_info(path)
        except (ValueError, OSError):
            return None
        if info.type == fs.FileType.NotFound:  # Spark names files by URIs, with characters encoded
            return None
        listing.append([name, info.size, info.mtime_ns])
    return [text, listing]


def _plan_text(frame: DataFrame, plan: Any) -> str:
    """The whole plan as text."""
    with whole_plans(frame.sparkSession):
        return _EXPRESSION_ID.sub("#", plan.treeString())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
