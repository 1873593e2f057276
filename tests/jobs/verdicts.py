"""The verdict on a job, computed from its runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import files
from .job import Job
from .results import Results, without
from .run import Failed, Refused, run_ours, run_stock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME, MORE_LINES, REFUSED, DIFFERS = "same", "more lines", "refused", "differs"
DEPENDS, PARTITIONS = "depends on cuts", "depends on partitions"
#: Files in a micro-batch of the second run of stock.
_OTHER_CUT = 3
#: Further cuts, for a job that differs: what they are, files in a micro-batch, and files.
_MORE_CUTS = {"one micro-batch": (1000, files.FILES), "micro-batches of a few rows": (1, 12 * files.FILES)}
#: Numbers of shuffle partitions that a job is run with if it differs with each cut.
MORE_PARTITIONS = (1, 3)
#: What is said of a job that depends on cuts if mixedmode gives what stock gives with files_per_batch = 1.
AS_ONE_FILE = "mixedmode gives what stock gives with micro-batches of one file; "


@dataclass(frozen=True)
class Verdict:
    """What came of a job.

    Args:
        kind: SAME, MORE_LINES, REFUSED, DEPENDS, PARTITIONS or DIFFERS.
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
    spark: SparkSession,
    job: Job,
    root: Path,
    stock: Stock,
    ours: Callable[..., list[Results]] = run_ours,
    by_stock: Callable[..., list[Results]] = run_stock,
) -> Verdict:
    """Run a job on mixedmode, and say how its results compare with stock's.

    Args:
        spark: the session.
        job: what to run.
        root: an empty folder.
        stock: what is expected.
        ours: runs it; another one in tests of this module.
        by_stock: the same of stock, with other cuts.
    """
    found, rows = _compared(stock, lambda: ours(spark, job, job.function, root / "ours", stock.results))
    if found.kind == DIFFERS and rows and not (stock.cuts or job.timeouts):
        runs = partial(by_stock, spark, job)
        found = _by_cuts(runs, root, stock, rows) or _by_partitions(runs, root, stock, rows) or found
    if stock.cuts:
        return Verdict(DEPENDS, (AS_ONE_FILE if found.kind == SAME else "") + stock.cuts)
    if found.kind != SAME and job.moved is not None:
        moved = job.moved
        with_lines = _compared(stock, lambda: ours(spark, job, moved, root / "moved", stock.results))
        if with_lines[0].kind == SAME:
            return Verdict(MORE_LINES, "; ".join(job.more_lines))
    return found


def difference(some: list[Results], others: list[Results], name: str, other_name: str) -> str:
    """The first difference of several queries' results; empty: there is none."""
    found = (one.difference(other, name, other_name) for one, other in zip(some, others, strict=True))
    return next(filter(None, found), "")


def _compared(stock: Stock, run: Callable[[], list[Results]]) -> tuple[Verdict, list[Results]]:
    """The verdict on a run, and its results if it has any."""
    try:
        found = run()
    except Refused as error:
        return Verdict(REFUSED, str(error)), []
    except Failed as error:
        return Verdict(DIFFERS, f"the query fails: {error}"), []
    differing = difference(stock.results, found, "stock", "mixedmode")
    return (Verdict(DIFFERS, differing) if differing else Verdict(SAME)), found


def _by_cuts(by_stock: Callable[..., list[Results]], root: Path, stock: Stock, ours: list[Results]) -> Verdict | None:
    """DEPENDS, if stock itself has and has not each of the rows that differ, depending on its micro-batches."""
    cuts: list[list[Results]] = []
    for number, (name, (per_batch, count)) in enumerate(_MORE_CUTS.items()):
        cuts.append(by_stock(root / f"stock-cut-{number}", per_batch, count))
        if explained(stock.results, ours, cuts):
            cut = difference(stock.results, cuts[-1], "micro-batches of one file", name)
            return Verdict(DEPENDS, cut)
    return None


def _by_partitions(
    by_stock: Callable[..., list[Results]], root: Path, stock: Stock, ours: list[Results]
) -> Verdict | None:
    """PARTITIONS, if stock itself gives other rows for all that differ, by how many partitions it shuffles to."""
    runs: list[list[Results]] = []
    for number in MORE_PARTITIONS:
        runs.append(by_stock(root / f"stock-partitions-{number}", partitions=number))
        if replaced(stock.results, ours, runs):
            return Verdict(PARTITIONS, difference(stock.results, runs[-1], "two partitions", f"{number} of them"))
    return None


def replaced(stock: list[Results], ours: list[Results], runs: list[list[Results]]) -> bool:
    """True if ours has other rows only in place of such as stock itself has others for, in one of its runs.

    Args:
        stock: its results, query by query.
        ours: those of mixedmode.
        runs: those of stock with other partitions.
    """
    for place, (one, other) in enumerate(zip(stock, ours, strict=True)):
        if one.columns != other.columns or len(one.rows) != len(other.rows):
            return False
        alike = [run[place].rows for run in runs if len(run[place].rows) == len(one.rows)]
        lacked = {row for rows in alike for row in without(one.rows, rows)}
        only = without(one.rows, other.rows)
        if not set(only) <= lacked or not (only or one.rows == other.rows):
            return False
    return True


def explained(stock: list[Results], ours: list[Results], cuts: list[list[Results]]) -> bool:
    """True if each row that only one of stock and ours has is, with another cut, one that stock itself has or lacks.

    Args:
        stock: its results, query by query.
        ours: those of mixedmode.
        cuts: those of stock with other micro-batches.
    """
    for place, (one, other) in enumerate(zip(stock, ours, strict=True)):
        if one.columns != other.columns and other.rows:
            return False
        others = [cut[place].rows for cut in cuts]
        lacked = [row for rows in others for row in without(one.rows, rows)]
        given = [row for rows in others for row in without(rows, one.rows)]
        only, only_ours = without(one.rows, other.rows), without(other.rows, one.rows)
        if not (only or only_ours or one.rows == other.rows):
            return False
        if not set(only) <= set(lacked) or not set(only_ours) <= set(given):
            return False
    return True
