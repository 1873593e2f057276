"""Decides whether Spark shuffles the rows of a stage as they are, and aggregates them once, behind the shuffle.

Spark aggregates before a shuffle and behind it.  Where few rows have the same key, what it does before makes hardly
fewer rows of them, and takes as long as what it does behind.  So some rows of a large input are looked at first.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ..catalyst.prepared.micro_batch import plan_behind
from ..catalyst.spark_cluster import aside
from ..catalyst.spark_expressions import class_name, tree
from ..catalyst.spark_plans import analyzed, contains, united
from ..catalyst.types.value_sizes import are_of_one_size
from ..operators.aggregate.operator import AggregateOperator
from ..operators.aggregated_once import AggregatedOnce
from ..scan.first_keys import first_keys
from ..scan.parquet_scan import NotTakenError
from ..tasks.scan.key_repetition import greatest_share, rows_per_key, sampled

if TYPE_CHECKING:
    from ..operators.contract import KeyedOperator

logger = logging.getLogger(__name__)

#: To look at some rows may take a small Spark job, which is lost on fewer bytes.
LEAST_BYTES = 32 << 20
#: With so many rows a key Spark's partial aggregation pays, by what files say of their rows, which is rather too few.
MANY_ROWS = 2.0
#: The same where Spark sorts rows to aggregate them: it then sorts them once instead of twice.
MANY_ROWS_TO_SORT = 6.0
#: The same of windows: the rows that are looked at lie together, so the same keys come again in other windows.
MANY_ROWS_IN_WINDOWS = 4.0
#: With a key of such a part of all rows it pays, too: the task that gets all of these would work on alone.
LARGE_SHARE = 0.1
#: With fewer rows a key the tasks of a deduplication sort all rows sooner than Spark finds those that stay.
MANY_ROWS_TO_COMPARE = 2.0
#: How many rows are looked at.
_SAMPLE = 1 << 14
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
#: Nodes that have no row twice, and tell nobody that they have run.
_PLAIN = ("Project", "Filter", "SubqueryAlias", "Union")


@dataclass(frozen=True)
class KeySample:
    """What some rows of a stage's input say of the keys, and of the texts that are kept of them."""

    #: About how many rows of all have the same key.
    rows_per_key: float
    #: Bytes of the longest text; 0: there are none; infinite: not all have been looked at.
    longest_text: float
    #: The part of all rows that has the most frequent key; 0 to 1.
    greatest_share: float = 0.0

    @property
    def mostly_unique(self) -> bool:
        """Whether most rows have a key of their own."""
        return self.rows_per_key < MANY_ROWS_TO_COMPARE

    def hardly_repeat(self, operator: KeyedOperator) -> bool:
        """Whether so few rows have the same key that Spark shuffles them as they are; ``operator``: the stage's."""
        if self.greatest_share >= LARGE_SHARE:
            return False
        if isinstance(operator, AggregatedOnce) and operator.sorts_rows:
            return self.rows_per_key < MANY_ROWS_TO_SORT
        windows = isinstance(operator, AggregateOperator) and operator.windows
        return self.rows_per_key < (MANY_ROWS_IN_WINDOWS if windows else MANY_ROWS)


def key_sample(operator: KeyedOperator, frame: DataFrame) -> KeySample | None:
    """Look at some rows of an operator's input.

    Args:
        operator: the stage's.
        frame: its input.

    Returns:
        What they say; None: the input is not of large files, or is not looked at.
    """
    if not isinstance(operator, AggregatedOnce) or not operator.can_aggregate_once:
        return None
    try:
        found = _looked_at(frame)
        if found is None:
            return None
        part, rows = found
        keys, are_whole = _keys_and_texts(operator, part)
    except (Py4JError, PySparkException) as error:  # whoever reads all rows says what is wrong
        logger.info("Spark does not show some rows of stage %s: %s", operator.uid, error)
        return None
    if not keys.num_rows:
        return None
    names = keys.column_names[: len(operator.key_columns)]
    per_key = rows_per_key(*sampled(keys, names), rows)
    logger.info("about %.1f rows of stage %s have the same key", per_key, operator.uid)
    longest = max(map(_longest_text, keys.columns)) if are_whole else math.inf
    return KeySample(per_key, longest, greatest_share(keys.select(names)))


def _keys_and_texts(operator: AggregatedOnce, frame: DataFrame) -> tuple[pa.Table, bool]:
    """The keys of some rows and behind them the texts, and whether these are all there."""
    if operator.kept_texts:
        try:
            return _first_keys(operator.keys_of(frame, texts=True)), True
        except (Py4JError, PySparkException) as error:
            logger.info("nobody looks at the texts that are kept: %s", error)
    return _first_keys(operator.keys_of(frame)), are_of_one_size(operator.kept_types)


def _first_keys(keys: DataFrame) -> pa.Table:
    try:
        return first_keys(keys, _SAMPLE)
    except NotTakenError as error:
        logger.info("Spark looks at some keys: %s", error)
    with aside(keys.sparkSession):  # else a backlog would seem to be read already
        return keys.limit(_SAMPLE).toArrow()


def _longest_text(column: pa.ChunkedArray) -> int:
    """Bytes of the longest text of a column, fields of structs included; 0: there is none."""
    if pa.types.is_struct(column.type):
        return max(map(_longest_text, column.flatten()), default=0)
    if not any(is_kind(column.type) for is_kind in _TEXTS):
        return 0
    return pc.max(pc.binary_length(column)).as_py() or 0


def _looked_at(frame: DataFrame) -> tuple[DataFrame, int] | None:
    """The part of a frame that is looked at, and about how many rows there are; None: the frame is not of large files.

    Rows that wait at a live source are few beside a history, and of the same kind: they are not read for that.
    """
    if contains(frame.sparkSession, analyzed(frame), "PYTHON_UDF"):
        return None
    largest, most, size, rows = frame, 0, 0, 0
    for part in united(frame):
        files = _files_of(part)
        if files is None:
            return None
        if files.size_bytes > most:
            largest, most = part, files.size_bytes
        size, rows = size + files.size_bytes, rows + files.rows
    return (largest, rows) if size >= LEAST_BYTES else None


@dataclass(frozen=True)
class _Files:
    """What Spark says of files."""

    size_bytes: int = 0
    rows: int = 0


def _files_of(part: DataFrame) -> _Files | None:
    """The files that a part of a frame reads; of a micro-batch none.  None: it is not plainly of either."""
    size, rows, waits = 0, 0, False
    for node in tree(analyzed(part)):
        kind = class_name(node)
        if kind == "LogicalRelation" and class_name(relation := node.relation()) == "HadoopFsRelation":
            its = int(str(relation.sizeInBytes()))
            size, rows = size + its, rows + its // max(int(relation.schema().defaultSize()), 1)
        elif plan_behind(node) is not None:
            waits = True
        elif kind not in _PLAIN:
            return None
    return None if waits and size else _Files(size, rows)
