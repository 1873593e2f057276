"""Scans recognised a moment ago: a job asks at its start who reads its backlog, and again when it is read.

To translate a plan takes hundreds of round trips to the JVM, and what a stage makes of its input has to be analyzed for
it; to see that the input is the same one takes one round trip.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from ..catalyst.spark_plans import analyzed, input_files
from .partial_scans import RecognisedScan
from .row_scans import RecognisedRows, listed_of
from .scan_plans import relation_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_Found = TypeVar("_Found", RecognisedScan, RecognisedRows)

#: Half as many stages are read by the jobs that start at the same time, at most; more are recognised twice.
_MOST = 32


@dataclass(frozen=True)
class _Known:
    context: SparkContext
    plan: Any
    columns: tuple[str, ...]
    #: What the scan depends on besides.
    others: tuple[Any, ...]
    found: RecognisedScan | RecognisedRows


_KNOWN: deque[_Known] = deque(maxlen=_MOST)


def remember(frame: DataFrame, others: tuple[Any, ...], found: RecognisedScan | RecognisedRows) -> None:
    """Keep what a frame was recognised as; not of files by whose paths rows are left out.

    Args:
        frame: the frame, or what a stage takes.
        others: what the scan depends on besides.
        found: the scan.
    """
    if isinstance(found, RecognisedRows) or not found.constants:
        _KNOWN.append(_Known(frame.sparkSession.sparkContext, analyzed(frame), tuple(frame.columns), others, found))


def recall(frame: DataFrame, others: tuple[Any, ...], kind: type[_Found]) -> _Found | None:
    """What a frame with the same plan was recognised as, with the files of now; None: there was none.

    Args:
        frame: the frame.
        others: as for :func:`remember`.
        kind: of the scan.

    Raises:
        NotTakenError: it matters which file comes first, and nobody knows.
    """
    context = frame.sparkSession.sparkContext
    alike = [one for one in _KNOWN if one.context is context and one.others == others]
    if not alike:
        return None
    plan, columns = analyzed(frame), tuple(frame.columns)
    for one in reversed(alike):
        try:
            if isinstance(one.found, kind) and one.columns == columns and plan.sameResult(one.plan):
                return _of_now(one.found, frame.sparkSession, relation_of(plan).relation())
        except Py4JError:  # it is of another kind than those that can be compared
            continue
    return None


def _of_now(found: _Found, spark: SparkSession, relation: Any) -> _Found:
    """The same scan of the files that a relation has."""
    uris = input_files(spark, relation)
    if isinstance(found, RecognisedScan):
        return replace(found, uris=uris)
    return replace(found, uris=uris, files=listed_of(spark, relation, uris) if found.files else {})
