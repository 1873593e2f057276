"""A verdict is computed: each kind of it comes of the results that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import catalogue, files, kept, table, verdicts
from jobs.job import Job, Output, Read, public_job
from jobs.making import series
from jobs.results import Results, results
from jobs.run import Failed, Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMES = ("key", "value")
_ROWS = [("a", 1), ("b", 2), ("a", 3)]
_JOBS: list[Job] = []


@public_job(
    _JOBS, "example.com", inputs={"rows": series("n int", lambda n, s, r: {"n": n}, count=30)}, sink="foreachBatch"
)
def rows_per_call(spark: SparkSession, read: Read) -> Any:
    """The function counts what it is given, so its results depend on micro-batches."""

    def write(batch: DataFrame, batch_id: int) -> None:
        read.store.append(batch.groupBy().count())

    return read("rows").writeStream.foreachBatch(write)


def test_append_compares_all_rows_in_any_order() -> None:
    expected = results(Output(), _NAMES, _ROWS)
    assert not expected.difference(results(Output(), _NAMES, _ROWS[::-1]), "stock", "ours")
    assert "1 of 3 rows only in stock" in expected.difference(results(Output(), _NAMES, _ROWS[1:]), "stock", "ours")
    assert "1 of 4 rows only in ours" in expected.difference(
        results(Output(), _NAMES, [*_ROWS, _ROWS[0]]), "stock", "ours"
    )


def test_update_compares_the_last_value_of_each_key() -> None:
    output = Output(mode="update", keys=("key",))
    assert results(output, _NAMES, _ROWS) == results(output, _NAMES, [("b", 2), ("a", 2), ("a", 3)])
    assert results(output, _NAMES, _ROWS) != results(output, _NAMES, [("b", 2), ("a", 3), ("a", 1)])


def test_ordered_table_compares_the_order_of_rows() -> None:
    output = Output(mode="complete", ordered=True)
    difference = results(output, _NAMES, _ROWS).difference(results(output, _NAMES, _ROWS[::-1]), "stock", "ours")
    assert difference == "the same 3 rows in another order"


def test_other_names_of_columns_are_a_difference() -> None:
    assert "columns" in results(Output(), _NAMES, _ROWS).difference(results(Output(), ("k", "v"), _ROWS), "a", "b")


def test_column_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="no column nokey"):
        results(Output(mode="update", keys=("nokey",)), _NAMES, _ROWS)


@pytest.mark.parametrize(
    ("ours", "kind", "reason"),
    [
        (_ROWS, verdicts.SAME, ""),
        (_ROWS[1:], verdicts.DIFFERS, "only in stock"),
        ([], verdicts.DIFFERS, "only in stock"),
        (Refused("PlanError: no"), verdicts.REFUSED, "PlanError: no"),
        (Failed("it broke"), verdicts.DIFFERS, "the query fails: it broke"),
    ],
)
def test_verdict_follows_from_the_results(ours: Any, kind: str, reason: str, tmp_path: Path) -> None:
    found = verdicts.verdict(None, _JOBS[0], tmp_path, _stock(), _run({"ours": ours}), _as_before)  # type: ignore[arg-type]
    assert found.kind == kind and reason in found.reason and bool(reason) == bool(found.reason)


def test_more_lines_are_run_only_if_the_job_itself_is_not_the_same(tmp_path: Path) -> None:
    from dataclasses import replace

    job = replace(_JOBS[0], moved=rows_per_call, more_lines=("one more",))
    for ours, moved, kind in (
        (_ROWS, _ROWS, verdicts.SAME),
        (Refused("no"), _ROWS, verdicts.MORE_LINES),
        (_ROWS[1:], _ROWS, verdicts.MORE_LINES),
        (Refused("no"), _ROWS[1:], verdicts.REFUSED),
    ):
        run = _run({"ours": ours, "moved": moved})
        assert verdicts.verdict(None, job, tmp_path, _stock(), run, _as_before).kind == kind  # type: ignore[arg-type]


@pytest.mark.slow
def test_job_whose_stock_results_depend_on_cuts_is_not_the_same(spark: SparkSession, folder: Path) -> None:
    stock = verdicts.stock_of(spark, _JOBS[0], folder)
    assert stock.results[0].rows == ("[3]",) * files.FILES
    assert "only in micro-batches of three" in stock.cuts
    found = verdicts.verdict(spark, _JOBS[0], folder, stock, lambda *args: stock.results)
    assert found.kind == verdicts.DEPENDS


@pytest.mark.parametrize(
    ("ours", "cuts", "is_explained"),
    [
        ([1, 2, 4], [[1, 2, 4]], True),  # what stock gives with another cut
        ([1, 4], [[1], [1, 2, 3, 4]], True),  # one row by one cut, one by another
        ([1, 4], [[1, 2]], False),  # stock never gives 4
        ([1, 2], [[1, 2, 3, 4]], False),  # stock always gives 3
        ([3, 2, 1], [[1, 2, 4]], False),  # it is only the order
    ],
)
def test_rows_that_differ_depend_on_cuts_only_if_stock_itself_has_and_lacks_each(
    ours: list[int], cuts: list[list[int]], is_explained: bool
) -> None:
    def given(numbers: list[int]) -> list[Results]:
        return [Results(("n",), tuple(map(str, numbers)))]

    assert verdicts.explained(given([1, 2, 3]), given(ours), [given(cut) for cut in cuts]) is is_explained


@pytest.mark.parametrize(
    ("ours", "runs", "is_replaced"),
    [
        ([1, 2, 9], [[1, 2, 4]], True),  # stock keeps 3 or 4, ours another one
        ([1, 8, 9], [[1, 2, 4], [1, 5, 3]], True),
        ([1, 2], [[1, 2, 4]], False),  # a row is missing
        ([1, 2, 9], [[1, 2, 3]], False),  # stock always keeps 3
        ([1, 2, 9], [[1, 2, 4, 5]], False),  # stock gives more rows, and not others
        ([3, 2, 1], [[1, 2, 4]], False),  # it is only the order
    ],
)
def test_rows_that_differ_depend_on_partitions_only_if_stock_itself_has_others_for_each(
    ours: list[int], runs: list[list[int]], is_replaced: bool
) -> None:
    def given(numbers: list[int]) -> list[Results]:
        return [Results(("n",), tuple(map(str, numbers)))]

    assert verdicts.replaced(given([1, 2, 3]), given(ours), [given(run) for run in runs]) is is_replaced


def test_job_that_stock_itself_answers_by_its_partitions_says_so(tmp_path: Path) -> None:
    def stock(spark: Any, job: Job, root: Path, *cut: int, partitions: int = 2) -> list[Results]:
        return [results(Output(), _NAMES, [*_ROWS[:2], ("a", 3 + (partitions == 3))])]

    ours = [*_ROWS[:2], ("a", 9)]
    found = verdicts.verdict(None, _JOBS[0], tmp_path, _stock(), _run({"ours": ours}), stock)  # type: ignore[arg-type]
    assert found.kind == verdicts.PARTITIONS
    assert "only in 3 of them" in found.reason


def test_job_that_depends_on_cuts_says_if_it_is_as_stock_is_file_by_file(tmp_path: Path) -> None:
    from dataclasses import replace

    stock = replace(_stock(), cuts="1 of 3 rows")
    for ours, reason in ((_ROWS, verdicts.AS_ONE_FILE + "1 of 3 rows"), (_ROWS[1:], "1 of 3 rows")):
        found = verdicts.verdict(None, _JOBS[0], tmp_path, stock, _run({"ours": ours}), _as_before)  # type: ignore[arg-type]
        assert found == verdicts.Verdict(verdicts.DEPENDS, reason)


def test_key_of_stored_results_changes_with_the_job_its_helpers_and_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    job = catalogue.BY_NAME["tumbling_window"]
    key = kept.key_of(job)
    assert key == kept.key_of(job)
    other = {"invoices": series("value binary, timestamp timestamp", lambda n, s, r: {"value": None})}
    windows = job.function.__globals__
    assert kept.key_of(replace(job, inputs=other)) != key
    assert kept.key_of(replace(job, function=windows["sliding_window"])) != key
    monkeypatch.setitem(windows["_invoices"].__globals__, "INVOICE", "StoreID string")
    assert kept.key_of(job) != key


def test_page_and_readme_agree_with_what_was_measured() -> None:
    assert table.PAGE.read_text() == table.page()
    assert table.figures_of(table.README.read_text()) == [table.figure()]


def test_each_measured_job_is_there_and_its_stock_results_are_stored_for_it_as_it_is() -> None:
    measured = kept.verdicts()
    assert set(measured) <= set(catalogue.BY_NAME)
    assert len(catalogue.BY_NAME) == len(catalogue.JOBS)
    assert not [name for name in measured if kept.stored(catalogue.BY_NAME[name]) is None]
    assert {job.listed for job in catalogue.JOBS} == set(table.LISTS)


def _stock() -> verdicts.Stock:
    return verdicts.Stock([results(Output(), _NAMES, _ROWS)], "")


def _as_before(*_: Any, **__: Any) -> list[Results]:
    """Stock, with another cut, or other partitions."""
    return _stock().results


def _run(found: dict[str, Any]) -> Callable[..., list[Results]]:
    def run(spark: Any, job: Job, function: Any, root: Path, expected: list[Results]) -> list[Results]:
        rows = found[root.name]
        if isinstance(rows, Exception):
            raise rows
        return [results(Output(), _NAMES if rows else (), rows)]

    return run
