"""Rows through a Python function that works on Arrow batches, as ``DataFrame.mapInArrow`` has them.

PySpark imports pandas for that, for which the first job of an application would wait; the functions here do without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType


def mapped_in_arrow(rows: DataFrame, function: Callable[..., Any], schema: StructType | str) -> DataFrame:
    """What a function makes of the rows of each partition.

    Args:
        rows: the rows.
        function: takes and gives iterators of Arrow batches.
        schema: columns of what it gives.
    """
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    called = UserDefinedFunction(function, returnType=schema, evalType=kind)(*[rows[name] for name in rows.columns])
    return DataFrame(rows._jdf.mapInArrow(called._jc, False, None), rows.sparkSession)
