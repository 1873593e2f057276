"""Static frames that a job's rows are joined with: batch DataFrames, read anew for each epoch."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...errors import PlanError
from ...runtime.platform.spark_plans import broadcast_limit_bytes, has_node, size_bytes
from .environment import refuse_connect

#: Kinds of joins, as Spark takes them, by how they are written without underscores.
_POSSIBLE = {"inner", "cross", "left", "leftouter", "leftsemi", "semi", "leftanti", "anti"}
_IMPOSSIBLE = {"right", "rightouter", "outer", "full", "fullouter"}
#: Spark's node of a hint.
_HINT = "ResolvedHint"


def check_static(what: str, other: Any, how: Any = None) -> DataFrame:
    """The static side of a join.

    Args:
        what: the method, for errors.
        other: what is to be joined.
        how: the kind of join; None: inner.

    Raises:
        PlanError: it is no static frame, or such a join has no answer before a stream's end.
    """
    refuse_connect(other)
    if not isinstance(other, DataFrame):
        raise PlanError(
            f"{what} takes what mixedmode.read() or a keyed stage gives, or a static DataFrame (spark.read…), got"
            f" {type(other).__name__}; give it one of these"
        )
    if other.isStreaming:
        raise PlanError(
            f"{what} got a streaming DataFrame: a join of two streams keeps state, which is the job's: give it"
            " mixedmode.read(live=…) of that stream, or a static frame (spark.read…)",
            code="MIXEDMODE_STATE_IN_INPUT",
        )
    kind = "inner" if how is None else str(how).lower().replace("_", "").replace(" ", "")
    if kind in _IMPOSSIBLE:
        raise PlanError(
            f"{what} of kind {how!r} keeps rows of the static side that match nothing, which is not known before the"
            " stream's end (Spark refuses it for streams, too); use inner, left, leftsemi, leftanti or cross"
        )
    if kind not in _POSSIBLE:
        raise PlanError(f"{what} of kind {how!r} is unknown; use inner, left, leftsemi, leftanti or cross")
    return other


def broadcast_if_small(other: DataFrame) -> DataFrame:
    """The static side with a hint, if Spark would broadcast it by itself: it must not take the other side instead.

    What the user has hinted at stays.
    """
    if has_node(other, _HINT):
        return other
    size, limit = size_bytes(other), broadcast_limit_bytes(other.sparkSession)
    return F.broadcast(other) if size is not None and size <= limit else other
