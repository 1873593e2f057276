"""Creates a job's rows from a history and a live frame: ``mixedmode.read``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from ..frame import MixedFrame
from ..unions import read_inputs


def read(
    history: DataFrame | None = None,
    live: DataFrame | Sequence[DataFrame] | Mapping[str, DataFrame] | None = None,
) -> MixedFrame:
    """Describes a job over a bounded history, an unbounded live source, or first one and then the other.

        orders = mixedmode.read(
            history=spark.read.parquet("lake/orders"),
            live=spark.readStream.schema(schema).parquet("landing"),
        )
        totals = orders.groupBy("customer").agg(F.sum("amount").alias("spent")).uid("spending")

    Args:
        history: a batch DataFrame (``spark.read…``) with the columns of ``live``, in any order.  Columns that ``live``
            does not have, such as a partition column, are left out.
        live: a streaming DataFrame (``spark.readStream…``), or several with the same columns.  Several are read side by
            side, each with its own watermark.  A list names them ``live-1``, ``live-2``…; a dict gives names.

    Raises:
        PlanError: both are missing, one is of the wrong kind, or their columns differ.
        SetupError: the session or its workers' Python cannot run the job.
    """
    return MixedFrame(*read_inputs(history, live))
