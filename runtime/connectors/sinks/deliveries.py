"""Makes a delivery of the rows of its epochs: all of them, or the last of each key, in the order they came in.

Between two checkpoints a stage in ``update`` mode writes a key's row once per epoch that touched it, each in place of
the one before.  Handed over together they would be several matches for one MERGE, and an upsert could keep any of them.

Both facts are read from the staged files themselves, from their names and the places of their rows, so they are the
same each time the files are delivered, and files staged by an older version have them too.  Invariants: an epoch is in
the name of each file; within an epoch a key's rows are in one file, in the order in which they were written, and an
aggregate in ``update`` mode writes one (of which operations behind it may make several, or none).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from ...catalyst.columns import quoted
from ...catalyst.struct_fields import recast
from ..staging import EPOCH_IN_NAME

#: Bits of the order column for the place of a row in its file; the others are the epoch's.
_PLACE_BITS = 36


@dataclass(frozen=True)
class WholeResult:
    """Each delivery is the whole result, in place of the one before."""

    #: What puts it in order, or cuts it short, and what is done to it then, one after the other.
    arrangement: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    #: Its columns then; None: they are those that are staged.
    schema: StructType | None = None

    def arranged(self, rows: DataFrame) -> DataFrame:
        """The result as it is shown."""
        return reduce(lambda frame, step: step(frame), self.arrangement, rows)


@dataclass(frozen=True)
class Deliveries:
    """How staged rows become the rows of a delivery."""

    #: Columns of the stage's key, if a row replaces the earlier ones of its key; None: every row stays.
    key: tuple[str, ...] | None = None
    #: A column that is added: it is greater in a later row of the same key; None: there is none.
    order_column: str | None = None
    #: The staged rows are the whole result; None: they are more of it.
    whole: WholeResult | None = None
    #: True if rows replace earlier ones, and the columns that would say which are gone.
    key_is_gone: bool = False
    #: The staged columns as users know them, where several, or fields of a struct, have one name; None: as staged.
    known: StructType | None = None

    def schema(self, staged: StructType) -> StructType:
        """The columns of a delivery."""
        if self.whole is not None and self.whole.schema is not None and self.known is None:
            return self.whole.schema
        known = self.known or staged
        fields = [
            StructField(one.name, one.dataType, field.nullable, field.metadata)
            for one, field in zip(known.fields, staged.fields, strict=True)
        ]
        if self.order_column is not None:
            fields.append(StructField(self.order_column, LongType()))
        return StructType(fields)

    def describe(self) -> str:
        """For explain(): what is not as it was staged; empty if everything is."""
        facts = []
        if self.whole is not None:
            facts.append("each time the whole result")
        if self.key is not None:
            facts.append("each time one row per key, the last")
        if self.key_is_gone:
            facts.append("every update of each key, as the key's own columns are not among those of the output")
        if self.order_column is not None:
            facts.append(f"{self.order_column} is greater in a later row of a key")
        return "; ".join(facts)

    def is_as_staged(self, epochs: Collection[int]) -> bool:
        """True if a delivery of epochs has all staged rows, and nothing else."""
        replaces = self.key is not None and len(epochs) > 1  # one epoch has one row per key
        return not replaces and self.whole is None and self.order_column is None and self.known is None

    def rows(self, staged: DataFrame, epochs: Collection[int], places: tuple[str, str] | None = None) -> DataFrame:
        """The rows of a delivery.

        Args:
            staged: the rows of staged files, as Spark's file source reads them.
            epochs: those that the files are of.
            places: names of two columns that are added: the name of each row's file, and its place in there.
        """
        rows = self._rows(staged, epochs, places)
        return rows if self.known is None else recast(rows, self.known.fields)

    def _rows(self, staged: DataFrame, epochs: Collection[int], places: tuple[str, str] | None) -> DataFrame:
        if self.whole is not None:
            return self.whole.arranged(staged)
        added = [*_places(staged, places), *self._order(staged)]
        if self.key is None or len(epochs) < 2:  # one epoch has one row per key
            return staged.select("*", *added) if added else staged
        epoch = _other_than("epoch", [*staged.columns, *(places or ()), self.order_column or ""])
        return _newest(staged.select("*", *added, _epoch(staged).alias(epoch)), self.key, epoch)

    def _order(self, staged: DataFrame) -> list[Column]:
        if self.order_column is None:
            return []
        order = F.shiftleft(_epoch(staged), _PLACE_BITS) + staged.metadataColumn("_metadata")["row_index"]
        return [order.alias(self.order_column)]


def _epoch(staged: DataFrame) -> Column:
    name = staged.metadataColumn("_metadata")["file_name"]
    return F.regexp_extract(name, EPOCH_IN_NAME, 1).cast("bigint")


def _places(staged: DataFrame, names: tuple[str, str] | None) -> list[Column]:
    if names is None:
        return []
    metadata = staged.metadataColumn("_metadata")
    return [metadata["file_name"].alias(names[0]), metadata["row_index"].alias(names[1])]


def _newest(rows: DataFrame, key: tuple[str, ...], epoch: str) -> DataFrame:
    """Of each key the rows of its last epoch: one, or what operations behind the stage have made of it."""
    rank = _other_than("rank", rows.columns)
    of_key = Window.partitionBy(*map(quoted, key)).orderBy(F.desc(epoch))
    return rows.withColumn(rank, F.rank().over(of_key)).where(F.col(rank) == 1).drop(rank, epoch)


def _other_than(name: str, names: Collection[str]) -> str:
    """A column name that is none of these."""
    taken = {other.lower() for other in names}
    while name in taken:
        name += "_"
    return name
