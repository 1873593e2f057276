"""Scans recognised a moment ago: a job asks at its start who reads its backlog, and again when it is read.

To translate a plan takes hundreds of round trips to the JVM; to see that it is the same one takes one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from ..catalyst.spark_plans import analyzed
from .partial_scans import RecognisedScan
from .scan_plans import relation_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

#: So many stages are read by the jobs that start at the same time, at most; more are recognised twice.
_MOST = 16


@dataclass(frozen=True)
class _Known:
    context: SparkContext
    plan: Any
    columns: tuple[str, ...]
    settings: tuple[str, ...]
    found: RecognisedScan


_KNOWN: deque[_Known] = deque(maxlen=_MOST)


def remember(prepared: DataFrame, settings: tuple[str, ...], found: RecognisedScan) -> None:
    """Keep what a frame was recognised as; not of files by whose paths rows are left out.

    Args:
        prepared: the frame.
        settings: what the scan depends on besides.
        found: the scan.
    """
    if not found.constants:
        context = prepared.sparkSession.sparkContext
        _KNOWN.append(_Known(context, analyzed(prepared), tuple(prepared.columns), settings, found))


def recall(prepared: DataFrame, settings: tuple[str, ...]) -> RecognisedScan | None:
    """What a frame with the same plan was recognised as, with the files of now; None: there was none.

    Args:
        prepared: the frame.
        settings: as for :func:`remember`.
    """
    context, columns = prepared.sparkSession.sparkContext, tuple(prepared.columns)
    alike = [one for one in _KNOWN if one.context is context and (one.columns, one.settings) == (columns, settings)]
    if not alike:
        return None
    plan = analyzed(prepared)
    for one in reversed(alike):
        try:
            if plan.sameResult(one.plan):
                return replace(one.found, uris=tuple(map(str, relation_of(plan).relation().inputFiles())))
        except Py4JError:  # it is of another kind than those that can be compared
            continue
    return None
