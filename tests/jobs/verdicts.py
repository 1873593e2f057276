"""The verdict on a job, computed from its runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .job import Job
from .results import Results
from .run import Failed, Refused, run_ours, run_stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME, MORE_LINES, REFUSED, DEPENDS, DIFFERS = "same", "more lines", "refused", "depends on cuts", "differs"
#: Files in a micro-batch of the second run of stock.
_OTHER_CUT = 3


@dataclass(frozen=True)
class Verdict:
    """What came of a job.

    Args:
        kind: SAME, MORE_LINES, REFUSED, DEPENDS or DIFFERS.
        reason: the message of the refusal, the lines, or the first rows that differ.
    """

    kind: str
    reason: str = ""


@dataclass(frozen=True)
class Stock:
    """What stock gives for a job.

    Args:
        results: of each query, one file a micro-batch.
        cuts: how they differ if three files are a micro-batch; empty: they do not.
    """

    results: list[Results]
    cuts: str

    @property
    def rows(self) -> int:
        """How many rows are compared."""
        return sum(len(one.rows) for one in self.results)


def stock_of(spark: SparkSession, job: Job, root: Path) -> Stock:
    """Run a job on stock, with two cuts into micro-batches."""
    once = run_stock(spark, job, root / "stock")
    other = run_stock(spark, job, root / "stock-other", _OTHER_CUT)
    return Stock(once, difference(once, other, "micro-batches of one file", "micro-batches of three"))


def verdict(
    spark: SparkSession, job: Job, root: Path, stock: Stock, ours: Callable[..., list[Results]] = run_ours
) -> Verdict:
    """Run a job on mixedmode, and say how its results compare with stock's.

    Args:
        spark: the session.
        job: what to run.
        root: an empty folder.
        stock: what is expected.
        ours: runs it; another one in tests of this module.
    """
    found = _compared(stock, lambda: ours(spark, job, job.function, root / "ours", stock.results))
    if stock.cuts:
        return Verdict(DEPENDS, stock.cuts)
    if found.kind == SAME or job.moved is None:
        return found
    moved = job.moved
    with_lines = _compared(stock, lambda: ours(spark, job, moved, root / "moved", stock.results))
    return Verdict(MORE_LINES, "; ".join(job.more_lines)) if with_lines.kind == SAME else found


def difference(some: list[Results], others: list[Results], name: str, other_name: str) -> str:
    """The first difference of several queries' results; empty: there is none."""
    found = (one.difference(other, name, other_name) for one, other in zip(some, others, strict=True))
    return next(filter(None, found), "")


def _compared(stock: Stock, run: Callable[[], list[Results]]) -> Verdict:
    try:
        found = run()
    except Refused as error:
        return Verdict(REFUSED, str(error))
    except Failed as error:
        return Verdict(DIFFERS, f"the query fails: {error}")
    differing = difference(stock.results, found, "stock", "mixedmode")
    return Verdict(DIFFERS, differing) if differing else Verdict(SAME)
