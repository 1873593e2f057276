"""Runs a case on stock and on mixedmode, and says how the results compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mixedmode
from jobs.job import Output
from jobs.results import Results, first_line, results
from jobs.verdicts import DIFFERS, REFUSED, SAME, Verdict
from mixedmode.errors import UnsupportedOperationError
from session_options import session_options
from two_ways import TwoWays

from .case import Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION = {"spark.sql.shuffle.partitions": "1"}


def verdict(spark: SparkSession, case: Case, folder: Path) -> Verdict:
    """Run a case on stock, on mixedmode as a stream, and on mixedmode with the first micro-batches as history.

    Raises:
        AssertionError: stock does not what Spark's test says.
    """
    batches, restarts = case.batches()
    with session_options(spark, _SESSION, case.session):
        ways = TwoWays(spark, folder, batches, case.inputs, restarts, named=case.named, empty_files=case.empty_files)
        if case.refused:
            return _refused(ways, case)
        expected = _results(case, ways.stock_rows(case.query, case.mode))
        _check_refusal(case, ways.refusal)
        assert expected.rows or case.may_be_empty, "stock Spark gives no row: nothing is compared"
        for history in dict.fromkeys((0, case.files_of_history)):
            way = f"{case.history} of {len(case.steps)} micro-batches as history" if history else "live"
            try:
                found = _results(case, ways.our_rows(case.query, case.mode, history=history))
            except (mixedmode.OptionError, mixedmode.PlanError) as error:
                return Verdict(REFUSED, f"{type(error).__name__}: {first_line(error)}")
            except Exception as error:
                return Verdict(DIFFERS, f"{case.why} {way}: the query fails: {first_line(error)}".strip())
            if any(change.refused for change in restarts.values()) and ways.refusal is None:
                return Verdict(DIFFERS, f"{case.why} {way}: stock refuses to go on, mixedmode does".strip())
            if differing := expected.difference(found, "stock", "mixedmode"):
                in_order = "" if case.event_time is None else _in_order(spark, case, folder / "in-order")
                return Verdict(DIFFERS, f"{case.why} {way}: {differing}{in_order}".strip())
    return Verdict(SAME)


def _in_order(spark: SparkSession, case: Case, folder: Path) -> str:
    """How the results compare over the rows in event-time order."""
    ways = TwoWays(spark, folder, case.in_event_time_order(), case.inputs)
    expected, found = (_results(case, rows(case.query, case.mode)) for rows in (ways.stock_rows, ways.our_rows))
    differing = expected.difference(found, "stock", "mixedmode")
    return f". Over the rows in event-time order, each event time a micro-batch: {differing or 'the same'}"


def _check_refusal(case: Case, refusal: Exception | None) -> None:
    """Stock refuses to go on after a restart if that is what Spark's test says, with its message."""
    _, restarts = case.batches()
    for change in restarts.values():
        if change.refused and (refusal is None or change.refused.lower() not in str(refusal).lower()):
            raise AssertionError(f"stock Spark does not refuse to go on with {change.refused!r}") from refusal


def _refused(ways: TwoWays, case: Case) -> Verdict:
    """Both must refuse the query: stock with the message of Spark's test, ours with an error of any kind."""
    try:
        ways.stock_rows(case.query, case.mode)
    except Exception as error:
        if case.refused.lower() not in str(error).lower():
            raise
    else:
        raise AssertionError("stock Spark takes the query")
    try:
        found = ways.our_rows(case.query, case.mode)
    except UnsupportedOperationError as error:  # not the query is refused, but how it is written
        return (
            Verdict(SAME) if case.refuses_method else Verdict(REFUSED, f"{type(error).__name__}: {first_line(error)}")
        )
    except Exception:
        return Verdict(SAME)
    rows = [tuple(row) for row in found[:3]]
    return Verdict(DIFFERS, f"{case.why} stock refuses it ({case.refused!r}), mixedmode gives {rows}".strip())


def _results(case: Case, rows: list[Any]) -> Results:
    names = rows[0].__fields__ if rows else []
    keys = case.keys if case.mode == "update" and case.keys else None
    mode: Any = case.mode if keys or case.mode != "update" else "append"
    return results(Output(mode=mode, sink="noop", keys=keys, ordered=case.ordered), names, rows)
