"""Contract of an operator whose rows Spark may shuffle as they are, and aggregate once, behind the shuffle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from .contract import EpochSpec


class AggregatedOnce(ABC):
    """What is asked of such an operator."""

    @property
    @abstractmethod
    def can_aggregate_once(self) -> bool:
        """True if rows that are shuffled by the hash of their keys can be aggregated there."""

    @property
    @abstractmethod
    def sorts_rows(self) -> bool:
        """True if Spark sorts rows to aggregate them: what it keeps of a group is not of one size."""

    @property
    @abstractmethod
    def kept_types(self) -> tuple[pa.DataType, ...]:
        """The types of what Spark keeps of a group."""

    @property
    @abstractmethod
    def kept_texts(self) -> tuple[str, ...]:
        """The texts that are kept of a group, if each is one of those in its rows; empty if others are, too."""

    @abstractmethod
    def keys_of(self, frame: DataFrame, *, texts: bool = False) -> DataFrame:
        """The key of each row; the operator :attr:`can_aggregate_once`.

        Args:
            frame: the input.
            texts: with what :attr:`kept_texts` are chosen from, behind the keys.
        """

    @abstractmethod
    def prepare_rows(self, frame: DataFrame, epoch: EpochSpec, *, as_unscaled: bool = False) -> DataFrame:
        """As ``KeyedOperator.prepare``, of rows that are shuffled by key first.

        Args:
            frame: the input, of a session in which a shuffle has a partition for each shard.
            epoch: what the tasks must know.
            as_unscaled: sums of decimals are whole numbers.
        """
