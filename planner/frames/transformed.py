"""``transform``: a user's function of frames, given the rows with what users do not know of, or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from ...errors import PlanError
from ...runtime.catalyst.star_columns import hidden_names


def transformed(frame: DataFrame, func: Callable[..., DataFrame], args: Any, kwargs: Any) -> DataFrame:
    """What a function makes of a frame.

    Args:
        frame: is given to it; columns that users do not know only if the function makes nothing else of it for them.
        func: the function.
        args: more arguments.
        kwargs: the same, by name.

    Raises:
        PlanError: it makes no frame.
    """

    def made(rows: DataFrame) -> DataFrame:
        result = func(rows, *args, **kwargs)
        if not isinstance(result, DataFrame):
            raise PlanError(
                f"the function given to transform returned {type(result).__name__}; it must return a DataFrame"
            )
        return result

    hidden = hidden_names(frame)
    if not hidden:
        return made(frame)
    plain = made(frame.drop(*hidden))
    try:
        whole = made(frame)
    except AnalysisException:  # such as of toDF, which names all columns
        return plain
    return whole if whole.drop(*hidden).schema == plain.schema else plain
