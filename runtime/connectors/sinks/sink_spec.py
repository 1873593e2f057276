"""Holds what the user asked of the writer: all that a sink is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .base import Guarantee
from .deliveries import Deliveries
from .foreach_rows import RowByRow
from .formats import SinkFormat, format_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class SinkSpec:
    """An output, as the user described it."""

    #: Columns of the output.
    schema: StructType
    #: Name of the format; of no meaning with ``foreach_batch``.
    format: str
    #: Folder of the output; None: the format has none, or its options say where.
    path: str | None = None
    #: Those that are left for the format itself.
    options: Mapping[str, str] = field(default_factory=dict)
    #: What a memory table is called.
    query_name: str | None = None
    #: Takes each delivery's rows and its number.
    foreach_batch: Callable[..., Any] | None = None
    #: The table to append to; None: there is none.
    table: str | None = None
    #: Columns that the output is laid out by.
    partition_by: Sequence[str] = ()
    #: Whether the format remembers ``txnVersion``; None: if it is known to.
    transactional: bool | None = None
    #: How often a row must be there; None: once, if that is to be had.
    guarantee: Guarantee | None = None
    #: How rows are handed over.
    deliveries: Deliveries = field(default_factory=Deliveries)

    @property
    def name(self) -> str:
        """The format, or the method that was given a function."""
        if self.foreach_batch is None:
            return self.format
        return "foreach" if isinstance(self.foreach_batch, RowByRow) else "foreachBatch"

    @property
    def capabilities(self) -> SinkFormat:
        """What the format, or the method, can do."""
        return format_of(self.format if self.foreach_batch is None else "foreachBatch")

    @property
    def is_built_in(self) -> bool:
        """Whether a sink of ours writes it."""
        return self.table is None and (self.foreach_batch is not None or self.capabilities.is_built_in)
