"""Methods of Spark's frames and of MLlib that are given a job's rows return a frame of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mixedmode.errors import PlanError, UnsupportedOperationError
from mixedmode.planner.frames.frame import MixedFrame
from pyspark.errors import AnalysisException
from pyspark.ml import PipelineModel, Transformer
from pyspark.ml.feature import Binarizer, SQLTransformer, StringIndexer, VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_JOINS: list[Callable[[DataFrame, Any], Any]] = [
    lambda static, rows: static.join(rows, "k"),
    lambda static, rows: static.join(rows, ["k", "v"], "right"),
    lambda static, rows: static.join(other=rows, on="k", how="right_outer"),
    lambda static, rows: static.join(rows, static["k"] == rows["k"]),
    lambda static, rows: static.join(rows, [static["k"] == rows["k"], static.v > rows.v]).select(
        static["v"], rows["v"]
    ),
    lambda static, rows: static.alias("s").join(rows.alias("r"), F.expr("s.k = r.k")).select("s.name", "r.ts"),
    lambda static, rows: static.join(rows, how="cross"),
    lambda static, rows: static.crossJoin(rows),
    lambda static, rows: F.broadcast(static).join(rows, on="k", how="inner").select("*", F.upper("name").alias("u")),
]


@pytest.fixture(scope="module")
def static(spark: SparkSession) -> DataFrame:
    return spark.sql("select 'n' as name, 'a' as k, 5L as v")


@pytest.mark.parametrize("join", _JOINS)
def test_a_static_frame_joined_with_a_jobs_rows_has_the_columns_of_sparks_join(
    join: Callable[[DataFrame, Any], Any], static: DataFrame, both: MixedFrame, live: DataFrame
) -> None:
    """Names, types and order are Spark's, with the static frame's columns first; the watermark stays."""
    ours = join(static, both.withWatermark("ts", "1 hour"))
    assert isinstance(ours, MixedFrame)
    assert ours.dtypes == join(static, live).dtypes
    assert ours._watermark is not None


@pytest.mark.parametrize("how", ["left", "full", "left_semi", "anti"])
def test_a_join_with_a_static_left_side_that_spark_refuses_is_refused(
    how: str, static: DataFrame, both: MixedFrame
) -> None:
    """Which of the static rows match is not known before the stream's end."""
    with pytest.raises(PlanError, match=rf"join of kind '{how}', with the static frame on the left.*use inner, right"):
        static.join(both, "k", how)


def test_a_stream_that_the_author_has_not_moved_may_be_on_the_left(live: DataFrame, both: MixedFrame) -> None:
    """It becomes a live input, as on the right."""
    joined = live.alias("l").join(both.alias("r"), F.expr("l.k = r.k"))
    assert isinstance(joined, MixedFrame)
    assert [column for column, _ in joined.dtypes] == live.columns * 2


def test_a_plain_frame_united_with_a_jobs_rows_gives_its_names(history: DataFrame, both: MixedFrame) -> None:
    """The plain frame becomes a history, or a live input, and its columns come first."""
    other = history.withColumnRenamed("v", "w")
    assert other.union(both).columns == other.columns
    assert len(other.union(both)._inputs.histories) == 2
    named = other.unionByName(both, allowMissingColumns=True)
    assert named.columns == ["k", "w", "x", "ts", "tags", "v"]
    assert len(history.withWatermark("ts", "1 hour").unionByName(both.withWatermark("ts", "1 hour"))._inputs.lives) == 1


def test_models_and_transformers_take_a_jobs_rows(spark: SparkSession, history: DataFrame, both: MixedFrame) -> None:
    """A transformer, a trained model, a pipeline of both, and one that an author has written."""

    class Doubled(Transformer):
        def _transform(self, dataset: DataFrame) -> DataFrame:
            return dataset.withColumn("twice", F.col("v") * 2)

    vectors = VectorAssembler(inputCols=["x"], outputCol="features")
    index = StringIndexer(inputCol="k", outputCol="place").fit(history)
    model = PipelineModel([vectors, index, Binarizer(inputCol="x", outputCol="flag"), Doubled()])
    ours = model.transform(both)
    assert isinstance(ours, MixedFrame)
    assert ours.dtypes == model.transform(history).dtypes
    binarizer = Binarizer(inputCol="x")
    assert binarizer.transform(both, {binarizer.outputCol: "y"}).columns[-1] == "y"
    assert vectors.transform(dataset=both).columns[-1] == "features"


def test_a_transformer_that_keeps_state_is_refused(both: MixedFrame) -> None:
    """What it makes of each input would be of that input alone."""
    counted = SQLTransformer(statement="SELECT k, count(*) AS n FROM __THIS__ GROUP BY k").transform(both)
    with pytest.raises(PlanError, match="contains an aggregation"):
        _ = counted.writeStream


def test_the_error_of_other_methods_names_the_call(history: DataFrame, both: MixedFrame) -> None:
    """What cannot take a job's rows says which call was given them."""
    for call, name in [
        (lambda: history.subtract(both), "DataFrame.subtract"),
        (lambda: F.broadcast(both), "broadcast"),
        (lambda: StringIndexer(inputCol="k", outputCol="i").fit(both), "StringIndexer.fit"),
    ]:
        with pytest.raises(UnsupportedOperationError, match=rf"^{name}\(\) was given rows of a job"):
            call()


def test_sparks_own_frames_meet_sparks_own_methods(history: DataFrame, static: DataFrame, both: MixedFrame) -> None:
    """Results and errors without a job's rows are Spark's."""
    assert both is not None
    assert static.join(history, "k").count() == 1
    assert history.union(history).count() == 4
    with pytest.raises(AnalysisException):
        static.join(history, "nothing")
    with pytest.raises(TypeError):
        static.join()  # type: ignore[call-arg]


def test_a_module_that_is_imported_later_is_taken_over() -> None:
    """MLlib may be imported behind the job's first frame; the module is loaded as it would be without us."""
    import importlib
    import sys

    from mixedmode.runtime.jvm.replaced_methods import when_imported

    name, seen = "json.tool", []
    before = sys.modules.pop(name, None)
    try:
        when_imported(name, seen.append)
        assert seen == []
        module = importlib.import_module(name)
        assert seen == [module]
        assert type(module.__loader__).__name__ == "SourceFileLoader"
        assert module.__spec__ is not None and module.__spec__.loader is module.__loader__
        when_imported(name, seen.append)
        assert seen == [module]
    finally:
        if before is not None:
            sys.modules[name] = before


def test_of_two_methods_in_the_place_of_one_each_is_put_there_once() -> None:
    """The last one is in front; Spark's own is still to be had."""
    from mixedmode.runtime.jvm.replaced_methods import replace_method, stock_method

    class Of:
        def method(self) -> str:
            return "stock"

    def first(stock: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: f"first {stock(self)}"

    def second(stock: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: f"second {stock(self)}"

    for replacement in (first, second, first, second):
        replace_method(Of, "method", replacement)
    assert Of().method() == "second first stock"
    assert stock_method(Of, "method")(Of()) == "stock"
