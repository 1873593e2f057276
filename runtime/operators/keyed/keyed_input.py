"""Describes the input rows of a keyed stage: their columns, their key and their event time."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType


@dataclass(frozen=True)
class KeyedInput:
    """Rows by key, as the frame has them that a stage is given."""

    #: The columns that the user's code gets.
    schema: StructType
    #: The columns that hold the key, in order.
    key_columns: tuple[str, ...]
    #: Schema of the key tuple, in the order of ``key_columns``.
    key_schema: StructType
    #: The watermarked column, if there is one.
    event_time: str | None
    #: Whether the rows come from another stage, which says nothing of the order in which they arrived.
    follows_a_stage: bool = False
