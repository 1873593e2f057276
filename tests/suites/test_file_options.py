"""FileStreamSourceSuite of Spark: what its readers' options cut, order and refuse, by stock and by mixedmode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import support
from pyspark.sql import SparkSession

from .watched import WAYS, Landing, Watched, both, read, running, source, whole

pytestmark = pytest.mark.suites


@pytest.mark.parametrize("limit", [{"maxFilesPerTrigger": "2"}, {"maxBytesPerTrigger": "2"}], ids=str)
def test_limits_cut_what_lands_while_the_query_runs(
    spark: SparkSession, folder: Path, limit: Mapping[str, str]
) -> None:
    """All rows come once, and in as many calls as in stock."""

    def run(way: str, at: Path) -> Any:
        landing, seen = Landing(at / "in", at / "tmp"), []
        watched = Watched(at, lambda: read(way, source(spark, "text", landing.folder, **limit)()))

        def land_numbers(first: int, last: int) -> None:
            for n in range(first, last):
                landing.text(str(n))

        land_numbers(1, 4)
        with running(watched):
            for first, last in ((4, 8), (8, 13)):
                seen.append((watched.rows(), watched.calls[-1]))
                land_numbers(first, last)
            seen.append((watched.rows(), watched.calls[-1]))
        return seen

    stock, ours = both(folder, run)
    assert ours == stock


@pytest.mark.parametrize("value", ["not-a-integer", "-1", "0", "10.1"])
@pytest.mark.parametrize("limit", ["maxFilesPerTrigger", "maxBytesPerTrigger"])
def test_limits_that_are_no_numbers_fail_the_query(spark: SparkSession, folder: Path, limit: str, value: str) -> None:
    for way in WAYS:
        landing = Landing(folder / way, folder / "tmp")
        landing.text("1")
        with pytest.raises(Exception, match=r"(?i)positive"):
            whole(folder, way, source(spark, "text", landing.folder, **{limit: value}))


def test_two_limits_fail_the_query(spark: SparkSession, folder: Path) -> None:
    both_limits = {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"}
    for way in WAYS:
        landing = Landing(folder / way, folder / "tmp")
        landing.text("1")
        with pytest.raises(Exception, match="can't be both set"):
            whole(folder, way, source(spark, "text", landing.folder, **both_limits))


def test_readers_refuse_times_of_modification(spark: SparkSession, folder: Path) -> None:
    for given in (
        {"modifiedBefore": "2027-01-01T00:00:00"},
        {"modifiedAfter": "2025-01-01T00:00:00"},
        {"modifiedBefore": "2027-01-01T00:00:00", "modifiedAfter": "2025-01-01T00:00:00"},
    ):
        for way in WAYS:
            landing = Landing(folder / way, folder / "tmp")
            landing.text("1")
            with pytest.raises(Exception, match="is not allowed in file stream source"):
                whole(folder, way, source(spark, "csv", landing.folder, "a string", timeZone="UTC", **given))


@pytest.mark.parametrize("limit", [{"maxFilesPerTrigger": "1"}, {"maxBytesPerTrigger": "1"}], ids=str)
def test_once_reads_everything_whatever_the_limits(spark: SparkSession, folder: Path, limit: Mapping[str, str]) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        watched = Watched(at, lambda: read(way, source(spark, "text", landing.folder, **limit)()))
        calls = []
        for numbers in ((1, 2, 3), (4, 5)):
            for n in numbers:
                landing.text(str(n))
            calls.append(watched.ended(once=True))
        return calls

    assert both(folder, run) == [[[[("1",), ("2",), ("3",)]], [[("4",), ("5",)]]]] * 2


def test_available_now_goes_on_behind_once_and_behind_itself(spark: SparkSession, folder: Path) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        watched = Watched(at, lambda: read(way, source(spark, "text", landing.folder, maxFilesPerTrigger="1")()))
        calls = []
        for numbers, trigger in (((1, 2, 3), "once"), ((4, 5), "availableNow"), ((6, 7), "availableNow")):
            for n in numbers:
                landing.text(str(n))
            calls.append(watched.ended(**{trigger: True}))
        return calls

    stock, ours = both(folder, run)
    assert stock == [[[("1",), ("2",), ("3",)]], [[("4",)], [("5",)]], [[("6",)], [("7",)]]]
    assert ours == stock


@pytest.mark.parametrize(
    "given",
    [
        {"latestFirst": "false", "maxFilesPerTrigger": "1"},
        {"latestFirst": "true", "maxFilesPerTrigger": "1"},
        {"latestFirst": "true", "maxFilesPerTrigger": "1", "maxFileAge": "1m"},
        {"latestFirst": "true", "maxBytesPerTrigger": "1", "maxFileAge": "1m"},
    ],
    ids=str,
)
def test_files_come_in_the_order_that_is_asked_for(spark: SparkSession, folder: Path, given: Mapping[str, str]) -> None:
    def run(way: str, at: Path) -> Any:
        landing = Landing(at / "in", at / "tmp")
        landing.text("1")
        landing.later(3600)
        landing.text("2")
        with running(Watched(at, lambda: read(way, source(spark, "text", landing.folder, **given)()))) as watched:
            watched.rows()
            return watched.calls

    stock, ours = both(folder, run)
    assert stock == ([[("1",)], [("2",)]] if given["latestFirst"] == "false" else [[("2",)], [("1",)]])
    assert ours == stock


@pytest.mark.parametrize("how", ["delete", "archive"])
def test_files_that_are_read_are_deleted_or_archived_except_the_last_ones(
    spark: SparkSession, folder: Path, how: str
) -> None:
    """Stock does so when the next micro-batch begins, mixedmode when a checkpoint holds that one."""

    def run(way: str, at: Path) -> Any:
        landing, archive = Landing(at / "in", at / "tmp"), at / "archive"
        given = {"cleanSource": how, "sourceArchiveDir": str(archive), "maxFilesPerTrigger": "1"}
        first = landing.text("keep1", name="first.txt")
        with running(Watched(at, lambda: read(way, source(spark, "text", landing.folder, **given)()))) as watched:
            seen = [(watched.rows(), first.exists())]
            second = landing.text("keep2", name="second.txt")
            seen.append((watched.rows(), second.exists()))
        support.wait_until(lambda: not first.exists())
        return (
            seen,
            second.exists(),
            [path.relative_to(archive) == first.relative_to("/") for path in files_in(archive)],
        )

    stock, ours = both(folder, run)
    rows = [[("keep1",)], [("keep1",), ("keep2",)]]
    assert stock == ([(one, True) for one in rows], True, [True] if how == "archive" else [])
    assert ours == stock


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.txt") if path.is_file()]
