"""Jobs without a keyed stage, which the tests and the kill drivers share."""

from __future__ import annotations

from typing import Any

import mixedmode
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def chain(rows: Any, static: DataFrame) -> Any:
    """What people do to rows without state, on a frame of Spark's or of ours."""
    shouted = F.udf(lambda key: key.upper(), "string")
    named = rows.where("value % 7 <> 0").withColumn("name", shouted("key")).drop("key")
    joined = named.join(static, "value", "left")
    return joined.mapInPandas(lambda frames: frames, joined.schema).select("name", "ts", "value", "label")


def copied(history: DataFrame | None, live: DataFrame | None) -> Any:
    """The rows as they are."""
    return mixedmode.read(history=history, live=live).select("key", "ts", "value")
