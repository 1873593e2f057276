"""The union of what several keyed stages give as a job's output, as it is planned."""

from __future__ import annotations

from typing import Any

import pytest
from mixedmode import OptionError, PlanError
from mixedmode.planner.frames.frame import MixedFrame
from pyspark.sql import functions as F


def test_a_union_is_output_in_append_and_update_mode(both: MixedFrame) -> None:
    """Rows of sources beside them go through a stage that keeps nothing; outputMode complete and an order of rows are
    refused."""
    rows = both.withWatermark("ts", "1 hour").select("k", "ts")
    one, other = rows.dropDuplicates(["ts"]), rows.where("k > 'a'").dropDuplicates(["k", "ts"])

    def writer(frame: Any) -> Any:
        return frame.writeStream.format("noop")

    plan = writer(one.union(other)).plan()
    assert plan.united == ("keyed-0", "keyed-1")
    assert plan.output_mode == "append"
    beside = writer(rows.where("k < 'b'").union(one)).plan()
    assert beside.united == ("keyed-0", "stateless")
    assert [stage.operator["operator"] for stage in beside.stages] == ["dropDuplicates", "stateless"]
    counts = both.withWatermark("ts", "1 hour").groupBy("k", F.window("ts", "1 hour")).agg(F.count("*").alias("n"))
    updated = writer(counts.select("k", "n").union(both.groupBy("k").count())).outputMode("update").plan()
    assert [stage.operator["output mode"] for stage in updated.stages] == ["update", "update"]
    for refused, kind, said in (
        (
            lambda: writer(counts.select("k", "n").union(counts.groupBy("k").agg(F.max("n")))).outputMode("update"),
            PlanError,
            "outputMode update is not supported for this union: rows of stage keyed-0 go to the sink and to another",
        ),
        (
            lambda: writer(one.union(other)).outputMode("update").format("parquet").option("path", "/tmp/x"),
            PlanError,
            "format parquet supports outputMode append only, got update",
        ),
        (lambda: writer(one.union(other)).outputMode("complete"), PlanError, "outputMode complete is not supported"),
        (lambda: writer(one.union(other.orderBy("k"))), PlanError, "orderBy"),
        (lambda: writer(one.union(other).select("k", F.col("ts").alias("k"))).format("csv"), PlanError, "named k, wh"),
    ):
        with pytest.raises(kind, match=said):
            refused().plan()
    ordered = (
        one.union(other).writeStream.foreachBatch(lambda frame, number: None).option("checkpointLocation", "/tmp/x")
    )
    with pytest.raises(OptionError, match="does not go with union of"):
        ordered.option("execution.sink.order-column", "n").plan()
