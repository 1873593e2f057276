"""Public stateful jobs move by one line: each is planned, one of each kind runs, and gives what plain Spark gives.

A shape that needs a part which does not exist is refused by a sentence, exactly as long as the catalogue says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mixedmode
import pytest
from pyspark import cloudpickle

from public_jobs import catalogue, pandas_state, parsing, processors, shape, table
from public_jobs.frames import END_MARKS, Batch, Folders, Moved, Stock
from public_jobs.shape import FUNCTION_SINKS, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

for module in (pandas_state, processors, parsing, shape, *map(sys.modules.get, ("public_jobs.complete_mode",))):
    cloudpickle.register_pickle_by_value(module)

BY_NAME = {one.name: one for one in catalogue.SHAPES}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("public"))


@pytest.mark.spark
@pytest.mark.parametrize("shape", catalogue.SHAPES, ids=lambda shape: shape.name)
def test_job_moves_by_one_line_or_is_refused(
    spark: SparkSession, folders: Folders, tmp_path: Path, shape: Shape
) -> None:
    assert shape.build(Stock(spark, folders)).isStreaming
    if catalogue.missing(shape):
        with pytest.raises(mixedmode.PlanError) as refused:
            _writer(shape, Moved(spark, folders), tmp_path, _ignored).plan()
        assert len(str(refused.value).split()) > 4
        return
    plan = _writer(shape, Moved(spark, folders), tmp_path, _ignored).plan()
    assert plan.output_mode == shape.output_mode.lower()
    if shape.runs_as is None:
        given = _given(spark, shape, Moved(spark, folders, closes=shape.closes), tmp_path)
        expected = _chosen(shape, (shape.oracle or shape.build)(Batch(spark, folders)))
        assert given == (expected if shape.ordered else sorted(expected))
        assert given, "the rows of the job make no result"


def test_shape_that_is_only_planned_has_one_that_runs() -> None:
    for one in catalogue.SHAPES:
        if one.runs_as is not None:
            other = BY_NAME[one.runs_as]
            assert other.runs_as is None, one.name
            # A part that is not there must not keep the stand-in from running.
            assert catalogue.missing(one) or not catalogue.missing(other), one.name


def test_page_and_readme_say_what_the_tests_find() -> None:
    assert table.PAGE.read_text() == table.page()
    assert f"{catalogue.figure()} move by" in table.README.read_text()


def test_catalogue_says_of_each_part_what_to_do_without_it() -> None:
    assert {need for one in catalogue.SHAPES for need in one.needs} == set(catalogue.INSTEAD)
    assert set(catalogue.INSTEAD) >= catalogue.NOT_YET
    assert len(BY_NAME) == len(catalogue.SHAPES)
    assert len({one.reference for one in catalogue.SHAPES}) >= 40


def _writer(shape: Shape, frames: Moved, folder: Path, function: Callable[[DataFrame, int], None]) -> Any:
    """The job up to ``start()``, with the sink that it has, or one that stands for it."""
    writer = shape.build(frames).writeStream.outputMode(shape.output_mode)
    if shape.sink in FUNCTION_SINKS and "complete to a format" not in shape.needs:
        writer = writer.foreachBatch(function)
    else:
        writer = writer.format(shape.sink).queryName(f"public_{shape.name}")
    if shape.sink in ("csv", "parquet"):
        writer = writer.option("path", str(folder / "out"))
    if shape.trigger:
        writer = writer.trigger(**shape.trigger)
    return writer.option("checkpointLocation", str(folder / "checkpoints")).option("pipeline.parallelism", 2)


def _given(spark: SparkSession, shape: Shape, frames: Moved, folder: Path) -> list[tuple[str, ...]]:
    """What the job writes of history and of what waits at the live source."""
    batches: list[DataFrame] = []
    rows: list[list[Row]] = []

    def keep(batch: DataFrame, number: int) -> None:
        batches.append(batch.limit(0))
        rows.append(batch.collect())

    writer = _writer(shape, frames, folder, keep)
    if shape.sink == "console":
        writer = writer.format("memory")
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    if shape.sink in ("csv", "parquet"):
        schema = shape.build(frames).schema
        return _closed(
            shape,
            _texts(
                shape,
                schema.names,
                # Unless it is told otherwise, Spark reads the empty strings of a csv as nulls.
                spark.read.schema(schema)
                .option("nullValue", "null")
                .format(shape.sink)
                .load(str(folder / "out"))
                .collect(),
            ),
        )
    if shape.sink in FUNCTION_SINKS:
        delivered = rows[-1] if shape.output_mode == "complete" else [row for batch in rows for row in batch]
        return _closed(shape, _texts(shape, batches[0].columns, delivered))
    kept = spark.table(f"public_{shape.name}")
    return _closed(shape, _texts(shape, kept.columns, kept.collect()))


def _chosen(shape: Shape, frame: DataFrame) -> list[tuple[str, ...]]:
    return _texts(shape, frame.columns, frame.collect())


def _texts(shape: Shape, names: list[str], rows: list[Row]) -> list[tuple[str, ...]]:
    places = [names.index(name) for name in shape.columns] if shape.columns else range(len(names))
    return [tuple(str(row[place]) for place in places) for row in rows]


def _closed(shape: Shape, rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Without what the row at the end of event time makes."""
    kept = [row for row in rows if not any(mark in text for text in row for mark in END_MARKS)]
    return kept if shape.ordered else sorted(kept)


def _ignored(batch: DataFrame, number: int) -> None:
    """For plans, which run nothing."""
