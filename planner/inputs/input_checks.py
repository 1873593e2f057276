"""Checks the history and the live inputs that ``read()`` was given, and makes the inputs of a job of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from ...errors import PlanError
from ...runtime.spark_io.spark_sources import is_open, sources
from .environment import refuse_connect
from .history_columns import with_columns_of
from .inputs import HISTORY, LIVE, InputPart, Inputs, checked, numbered_names


def check_inputs(history: Any, live: Any) -> Inputs:
    """The inputs of ``read()``, checked; columns are those of the live input, in the order of the first one.

    Raises:
        PlanError: none is given, one is of the wrong kind, or their columns differ.
        SetupError: the session is a Spark Connect one, or its workers run another Python.
    """
    if isinstance(history, DataFrame):
        _check_end(history)
        history = _with_columns_of_live(history, live)
    parts = [] if history is None else [InputPart(HISTORY, history, is_live=False)]
    if isinstance(live, Mapping):
        parts += [InputPart(_checked_name(name), frame, is_live=True, is_named=True) for name, frame in live.items()]
    elif isinstance(live, (list, tuple)):
        parts += [InputPart(LIVE, frame, is_live=True) for frame in live]
    elif live is not None:
        parts.append(InputPart(LIVE, live, is_live=True))
    if not parts:
        raise PlanError("read() got neither history nor live; give it at least one of them")
    return checked(numbered_names(parts))


def _with_columns_of_live(history: DataFrame, live: Any) -> DataFrame:
    """The history with the columns of the first live input; as it is, if there is none that could say them."""
    several = live.values() if isinstance(live, Mapping) else live if isinstance(live, (list, tuple)) else [live]
    first = next(iter(several), None)
    if not isinstance(first, DataFrame) or history.isStreaming or not first.isStreaming:
        return history  # who checks each of them says what is wrong
    return with_columns_of(first, history)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or name == HISTORY:
        raise PlanError(f"live has an input called {name!r}; its name must be a text other than {HISTORY!r}")
    return name


def _check_end(history: DataFrame) -> None:
    """Raise PlanError if a history ends somewhere else each time it is read."""
    refuse_connect(history)
    for one in sources(history):
        if one.kafka_end is not None and is_open(one.kafka_end):
            raise PlanError(
                "history reads Kafka up to endingOffsets = 'latest', which is somewhere else each time it is read, and"
                " a job may read its history more than once. Use mixedmode.kafka.snapshot(spark, bootstrap, topic),"
                " whose end is asked for once; or mixedmode.kafka.read(…), which takes what a topic holds as the"
                " backlog; or give endingOffsets as JSON",
                code="MIXEDMODE_SEAM_BROKEN",
            )
