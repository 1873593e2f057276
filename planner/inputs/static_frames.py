"""Static frames that a job's rows are joined with: batch DataFrames, read anew for each epoch."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...errors import PlanError
from ...runtime.catalyst.spark_plans import broadcast_limit_bytes, has_node, size_bytes
from .environment import refuse_connect

#: Kinds of joins, as Spark takes them, by how they are written without underscores.
_LEFT, _RIGHT, _FULL = {"left", "leftouter"}, {"right", "rightouter"}, {"outer", "full", "fullouter"}
_OF_LEFT = {"leftsemi", "semi", "leftanti", "anti"}
_KINDS = {"inner", "cross", *_LEFT, *_RIGHT, *_FULL, *_OF_LEFT}
#: Those that have an answer before the stream's end, with the static frame on the right, or on the left.
_POSSIBLE = {False: {"inner", "cross", *_LEFT, *_OF_LEFT}, True: {"inner", "cross", *_RIGHT}}
_ALLOWED = {False: "inner, left, leftsemi, leftanti or cross", True: "inner, right or cross"}
#: Spark's node of a hint.
_HINT = "ResolvedHint"


def check_static(what: str, other: Any, how: Any = None, *, on_the_left: bool = False) -> DataFrame:
    """The static side of a join.

    Args:
        what: the method, for errors.
        other: what is to be joined.
        how: the kind of join; None: inner.
        on_the_left: the static frame is the left side.

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
    if kind not in _KINDS:
        raise PlanError(f"{what} of kind {how!r} is unknown; use {_ALLOWED[on_the_left]}")
    if kind not in _POSSIBLE[on_the_left]:
        side = "left" if on_the_left else "right"
        raise PlanError(
            f"{what} of kind {how!r}, with the static frame on the {side}, hands on rows of the static side by whether"
            " they match, which is not known before the stream's end (Spark refuses it for streams, too); use"
            f" {_ALLOWED[on_the_left]}"
        )
    return other


def broadcast_if_small(other: DataFrame) -> DataFrame:
    """The static side with a hint, if Spark would broadcast it by itself: it must not take the other side instead.

    What the user has hinted at stays.
    """
    if has_node(other, _HINT):
        return other
    size, limit = size_bytes(other), broadcast_limit_bytes(other.sparkSession)
    return F.broadcast(other) if size is not None and size <= limit else other
