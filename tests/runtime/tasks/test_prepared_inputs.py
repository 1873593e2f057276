"""Inputs of a pass that are prepared one by one come to what they come to together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aggregate_support import events, measures, oracle, out_of_order, same, tuples
from mixedmode.planner.stages.aggregates.aggregate import plan_aggregate
from mixedmode.runtime.connectors.output_place import OutputPlace
from mixedmode.runtime.operators.contract import EpochSpec, KeyedOperator
from mixedmode.runtime.protocols.event_time import MAX_WATERMARK, MIN_WATERMARK
from mixedmode.runtime.spec import Settings
from mixedmode.runtime.tasks.executor import EpochExecutor
from mixedmode.runtime.tasks.prepared_inputs import PreparedInputs
from mixedmode.state.keygroups import shard_ranges
from mixedmode.state.lineage import ShardLineage
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


class InHalves:
    """Takes one input and has both halves of it prepared apart, as two tasks of an engine would."""

    def __init__(self, mine: DataFrame) -> None:
        self.mine = mine
        self.offered: list[DataFrame] = []

    def prepared(self, rows: DataFrame, operator: KeyedOperator, epoch: EpochSpec) -> DataFrame | None:
        self.offered.append(rows)
        if rows is not self.mine:
            return None
        first, second = (operator.prepare(rows.where(F.col("v") % 2 == half), epoch) for half in (0, 1))
        return first.unionByName(second)


def spec_of(late_ms: int = MIN_WATERMARK) -> EpochSpec:
    return EpochSpec(1, "sorted", MIN_WATERMARK, MAX_WATERMARK, late_ms, 0, MIN_WATERMARK)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["keys", "sessions", "one"])
def test_rows_of_a_key_that_several_have_prepared_are_merged(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Whoever prepares an input, results, counts and event times are those of all rows; each input is offered once."""
    rows = events(spark, [(e, k, m, abs(v)) for e, k, m, v in out_of_order(3, seed=5)])
    history, waiting = rows.where("e < 2"), rows.where("e = 2")
    groups: list[Any] = {"keys": ["k"], "sessions": ["k", F.session_window("ts", "5 minutes")], "one": []}[kind]
    time = "ts" if kind == "sessions" else None
    operator = plan_aggregate(
        rows.withWatermark("ts", "1 minute") if time else rows,
        groups,
        measures(),
        event_time=time,
        output_mode="append",
        uid="agg",
        bounded=True,
    )
    for name in ("pool", "out"):
        (tmp_path / name).mkdir()
    engine = InHalves(history)
    executor = EpochExecutor(
        spark=spark,
        operator=operator,
        settings=Settings(),
        job_id="job",
        run_id="run",
        max_parallelism=128,
        state_filesystem=fs.LocalFileSystem(),
        state_pool=str(tmp_path / "pool"),
        output=OutputPlace(fs.LocalFileSystem(), str(tmp_path / "out")),
        progress_folder=str(tmp_path / "progress"),
        engines=(engine,),
    )
    lineages = [ShardLineage(shard, ()) for shard in shard_ranges(2, 128)]
    whole = history.unionByName(waiting)
    reports = executor.execute(whole, spec_of(), lineages, inputs=(history, waiting)).reports
    assert engine.offered == [history, waiting]
    names = [file.name for report in reports for file in report.output]
    found = [row for name in names for row in tuples(pq.read_table(tmp_path / "out" / name))]
    stock = oracle(rows.where("ts IS NOT NULL") if time else rows, groups, measures())
    same(found, stock)
    assert sum(report.counters.rows_in for report in reports) == rows.count() - (3 if time else 0)
    # Which sessions are over is told of whole ones.
    apart_when_late = PreparedInputs.of((history,), operator, spec_of(late_ms=0), (engine,))
    assert (apart_when_late is None) == (kind == "sessions")


def test_only_what_is_merged_afterwards_is_offered_to_an_engine() -> None:
    """Where a row's lateness depends on others, or rows of a key are not merged, Spark prepares all inputs at once."""

    class Refusing(KeyedOperator):
        def run(self, context: Any, rows: Any) -> None: ...

    engine: Any = object()
    rows: Any = object()
    assert PreparedInputs.of((rows,), Refusing(), spec_of(), (engine,)) is None
