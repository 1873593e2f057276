"""Brings an epoch's rows to their shards as partitions of one Spark job, one partition a shard.

:func:`exchanged_by_shard` computes each row's shard and moves it there, in the user's session and whatever Spark plans.
Every other way is a :class:`~..tasks.shard.shard_routing.ShardRouting`, and saves something:

:class:`ShardExchange` does the same in the stream, where an epoch is small and adaptive execution only costs.

:class:`HashExchange` is for operators whose rows Spark aggregates by key first: that takes an exchange by the hash of
the key anyway, and with a number of shards that is a power of two its partitions *are* the shards
(:mod:`...state.keys.keygroups`), so the rows stay where they are and one exchange is saved.

:class:`InPlace` is for rows that an earlier stage has handed on shard by shard and that are in the same key groups in
the next one: Spark is told which partition of a hash partitioning each file is, and needs no exchange at all.

:class:`JoinedInShards` is for both sides of a join that Spark makes: they are exchanged once, and what comes of them
stays where it is.

Two more are elsewhere: :class:`~.shard_placement.ShardPlacement` moves rows where their shards' local copies are, and
:class:`~..tasks.shard.shards_in_one.InOneTask` has one task do all shards of a small epoch.

Spark's partitioning is not ours to decide.  So ``holds`` looks at the plan that Spark made, and the
tasks check the key groups of what they get in any case.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...state.keys.keygroups import ShardId, is_power_of_two, shards_of_hash_partitions
from ..catalyst.columns import quoted
from ..catalyst.even_scans import are_even_scans_wanted, evenly_scanned
from ..catalyst.spark_buckets import SETTINGS, partitions_in_place
from ..catalyst.spark_plans import PYTHON_NODES, executed_text, hash_partitions, uppermost_exchange
from ..catalyst.types.value_sizes import value_bits
from ..operators.aggregate.definition import Aggregation
from ..operators.aggregated_once import AggregatedOnce
from ..operators.keyed.keyed_rows import KEY_GROUP_COLUMN
from ..tasks.shard.shard_routing import ShardRouting

if TYPE_CHECKING:
    from ..operators.contract import KeyedOperator

#: The column of the shard's number.
SHARD_COLUMN = "__shard"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
#: What sorted passes are planned with, unless the user has said it.
_OF_MANY_ROWS = {
    # How many groups Spark's partial aggregation has in the table that its own code is made for, as a power of two.
    # What does not fit, with Spark's default of 16 all but the first 65,536 groups, is looked for there in vain, and
    # found in a slower table.  A task's index takes 8 bytes a group, 16 where keys are strings, and Spark does not
    # reckon with it.
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "21",
    # How many rows go to a Python worker at once: what is done for all of them together costs each the less.
    _BATCH_ROWS: "65536",
}
#: The same where each row has the same few bytes, so that so many of them are no danger: Spark no longer works out
#: for each row how large all of them together are, which takes a sixth of the time of a task that hands them to Python.
_OF_NARROW_ROWS = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
#: Bytes of a row that is narrow: 64 MiB for a batch.
_NARROW_BYTES = 1024
#: Texts are short if the longest of those that were looked at has so many bytes.  A longer one may come later:
#: so rows with texts go to Python in batches of fewer.
SHORT_TEXT_BYTES, _ROWS_WITH_TEXTS = 256, "8192"
#: Rows of a key on one side of a join; more are where Spark can spill them.
_ROWS_OF_A_KEY_IN_MEMORY = 16_384


def with_key_group(rows: DataFrame, operator: KeyedOperator, max_parallelism: int) -> DataFrame:
    """An operator's prepared rows with their key group as first column."""
    return rows.selectExpr(f"{key_group(operator.key_group_columns, max_parallelism)} AS {KEY_GROUP_COLUMN}", "*")


def key_group(columns: Sequence[str], max_parallelism: int) -> str:
    """The key group of a row by the columns that decide it, by the rule of :mod:`...state.keys.keygroups`.

    Without key columns there is one key, in 0.

    As SQL: each function call on columns is a dozen calls to the JVM, and every epoch pays for them.  The hash
    stands in it once, or twice: of an aggregation's results Spark computes it for each row as often as it is named.
    """
    if not columns or max_parallelism == 1:
        return "0"
    hashed = f"hash({', '.join(quoted(name) for name in columns)})"
    if not is_power_of_two(max_parallelism):
        return f"pmod({hashed}, {max_parallelism})"
    group, bits = f"{hashed} & {max_parallelism - 1}", max_parallelism.bit_length() - 1
    if bits <= 8:
        return f"shiftright({_bits_of_byte_reversed(group)}, {8 - bits})"
    low, high = _bits_of_byte_reversed(f"{hashed} & 255"), _bits_of_byte_reversed(f"shiftright({group}, 8)")
    return f"(shiftleft({low}, {bits - 8}) | shiftright({high}, {16 - bits}))"


def _bits_of_byte_reversed(byte: str) -> str:
    """SQL of the eight bits of a number below 256 in reverse order.

    Five copies of the number side by side have each of its bits at a place that differs from its new one by a multiple
    of ten; the remainder of 2**10 - 1 adds up what the mask has left of them.
    """
    return f"CAST(((CAST({byte} AS BIGINT) * {0x0202020202}L) & {0x010884422010}L) % 1023L AS INT)"


def exchanged_by_shard(
    rows: DataFrame,
    max_parallelism: int,
    parallelism: int,
    *,
    without: Collection[ShardId] = (),
    keep_shard: bool = False,
) -> DataFrame:
    """Move every row to the partition of its shard.

    Args:
        rows: rows with their key group.
        max_parallelism: number of key groups.
        parallelism: number of shards.
        without: shards whose rows are left out.
        keep_shard: leave the column with the shard's number.
    """
    shard = _shard(KEY_GROUP_COLUMN, max_parallelism, parallelism)
    if without:
        rows = rows.where(f"{shard} NOT IN ({', '.join(map(str, without))})")
    if keep_shard:
        rows = rows.selectExpr("*", f"{shard} AS {SHARD_COLUMN}")
    return rows.repartitionById(parallelism, F.expr(SHARD_COLUMN if keep_shard else shard))


def without_shards(
    rows: DataFrame, operator: KeyedOperator, max_parallelism: int, parallelism: int, without: Collection[ShardId]
) -> DataFrame:
    """Rows with an operator's key columns, less those of some shards.

    Args:
        rows: the rows.
        operator: the operator.
        max_parallelism: number of key groups.
        parallelism: number of shards.
        without: the shards.
    """
    if not without:
        return rows
    group = f"({key_group(operator.key_group_columns, max_parallelism)})"
    return rows.where(f"{_shard(group, max_parallelism, parallelism)} NOT IN ({', '.join(map(str, without))})")


def _shard(key_group: str, max_parallelism: int, parallelism: int) -> str:
    return f"CAST({key_group} * {parallelism} DIV {max_parallelism} AS int)"


def _are_narrow(operator: KeyedOperator, *, short_texts: bool) -> bool:
    """Whether all that Spark hands to Python of groups is of types whose values have one size, and little in all.

    Args:
        operator: the stage's.
        short_texts: of the texts some have been looked at, and are short.
    """
    if not isinstance(operator, AggregatedOnce):
        return False
    text = SHORT_TEXT_BYTES * 8 if short_texts else math.inf
    types = (*(field.type for field in operator.key_schema), *operator.kept_types)
    return sum(value_bits(data_type, text) for data_type in types) <= _NARROW_BYTES * 8


class HashExchange(ShardRouting):
    """Leaves rows where Spark's aggregation by key has put them.

    Args:
        spark: the session whose settings hold for the input.
        operator: an operator for which it :meth:`is_possible`.
        parallelism: number of shards.
        many_rows: whether it is for a sorted pass.
        short_texts: see :func:`_are_narrow`.
    """

    def __init__(
        self,
        spark: SparkSession,
        operator: KeyedOperator,
        parallelism: int,
        *,
        many_rows: bool = False,
        short_texts: bool = False,
    ) -> None:
        # A sorted pass groups by the two times of a window.
        flat = len(operator.flat_windows) if many_rows and isinstance(operator, Aggregation) else 0
        self._keys = len(operator.key_columns) + flat
        self._parallelism = parallelism
        # Without adaptive execution, which would merge small partitions of the exchange.
        settings = {"spark.sql.shuffle.partitions": str(parallelism), "spark.sql.adaptive.enabled": "false"}
        if many_rows:
            # How many rows of the user's number are still little is not known: it may be all.
            its_own = any(spark.conf.get(name, None) is not None for name in (_BATCH_ROWS, *_OF_NARROW_ROWS))
            narrow = _are_narrow(operator, short_texts=short_texts) and not its_own
            wanted = _OF_MANY_ROWS | (_OF_NARROW_ROWS if narrow else {})
            if narrow and not _are_narrow(operator, short_texts=False):
                wanted |= {_BATCH_ROWS: _ROWS_WITH_TEXTS}
            settings |= {name: value for name, value in wanted.items() if spark.conf.get(name, None) is None}
        super().__init__(spark, settings)
        self._is_even = many_rows and are_even_scans_wanted(spark)
        #: The shard of each partition.
        self.shards = shards_of_hash_partitions(parallelism)

    def adopt(self, frame: DataFrame) -> DataFrame:
        """The same rows, planned under these settings; of many, each task reads about as much."""
        return evenly_scanned(frame, self.session) if self._is_even else super().adopt(frame)

    @staticmethod
    def is_possible(
        operator: KeyedOperator, max_parallelism: int, parallelism: int, *, many_rows: bool = False
    ) -> bool:
        """True if partitions can be shards: Spark aggregates by key, and the numbers are powers of two.

        Args:
            operator: the stage's.
            max_parallelism: number of key groups.
            parallelism: number of shards.
            many_rows: in a sorted pass, rows that are aggregated by key and more may be shuffled by key first.
        """
        once = many_rows and isinstance(operator, AggregatedOnce) and operator.can_aggregate_once
        aggregates = operator.aggregates_by_key or once
        by_key = aggregates and bool(operator.key_columns) and operator.key_group_places is None
        return by_key and is_power_of_two(max_parallelism) and is_power_of_two(parallelism)

    def holds(self, job: DataFrame) -> bool:
        """True if Spark's plan leaves every row in its shard's partition.

        Args:
            job: one operation on the operator's prepared rows, which were made of an adopted frame.

        Returns:
            True for one exchange in all, and that by the hash of all key columns.  An input with exchanges of its own
            is left to the user's session: how many partitions they have is not ours to change.  So is an input with
            Python code, which may need what was added to that session.
        """
        found = uppermost_exchange(job)
        return (
            found is not None
            and found.partitioning == "HashPartitioning"
            and found.partitions == self._parallelism
            and found.expressions == self._keys
            and found.text.count("Exchange") == 1
            and not any(mark in found.text for mark in PYTHON_NODES)
        )


class ShardExchange(ShardRouting):
    """Moves rows of an epoch of the stream to their shards, whatever operator they are for.

    A session of our own is for what adaptive execution costs where there is nothing to adapt: it runs each exchange as
    a Spark job and plans what is left once more.

    Args:
        spark: the session whose settings hold for the input.
    """

    depends_on_plan = False

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark, {"spark.sql.adaptive.enabled": "false"})

    def holds(self, job: DataFrame) -> bool:
        """True for an input without exchanges of its own, which adaptive execution is for, and without Python code.

        Args:
            job: one operation on the operator's prepared rows, which were made of an adopted frame.
        """
        found = uppermost_exchange(job)
        alone = found is not None and found.text.count("Exchange") == 1
        return found is not None and alone and not any(mark in found.text for mark in PYTHON_NODES)


class InPlace(ShardRouting):
    """Leaves rows in the shards that an earlier stage has handed them on from.

    Args:
        spark: the session whose settings hold for the input.
        parallelism: number of shards, of both stages.
    """

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        self._parallelism = parallelism
        super().__init__(spark, SETTINGS)
        #: The shard of each partition.
        self.shards = shards_of_hash_partitions(parallelism)

    @staticmethod
    def is_possible(max_parallelism: int, parallelism: int) -> bool:
        """True if shards can be partitions of Spark's: the numbers are powers of two."""
        return is_power_of_two(max_parallelism) and is_power_of_two(parallelism)

    def holds(self, job: DataFrame) -> bool:
        """True if Spark's plan leaves every row of such files in its partition.

        Args:
            job: one operation on the operator's prepared rows, which were made of an adopted frame.
        """
        return partitions_in_place(job) == self._parallelism


class JoinedInShards(ShardRouting):
    """Has Spark join both sides of an operator's first pass where its shards are.

    Args:
        spark: the session whose settings hold for the input.
        operator: an operator for which it :meth:`is_possible`.
        parallelism: number of shards.
    """

    def __init__(self, spark: SparkSession, operator: KeyedOperator, parallelism: int) -> None:
        self._keys = operator.key_columns
        self._parallelism = parallelism
        # Adaptive execution would merge and split partitions, or join in another way once it knows how large sides are.
        # It would also hold all rows of a key in memory, however many, while it joins the other side's to them.
        settings = {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.unionOutputPartitioning": "true",
            "spark.sql.sortMergeJoinExec.buffer.in.memory.threshold": str(_ROWS_OF_A_KEY_IN_MEMORY),
        }
        super().__init__(spark, settings)
        #: The shard of each partition.
        self.shards = shards_of_hash_partitions(parallelism)

    @staticmethod
    def is_possible(operator: KeyedOperator, max_parallelism: int, parallelism: int) -> bool:
        """True if partitions can be shards: all key columns decide, and the numbers are powers of two."""
        return operator.key_group_places is None and is_power_of_two(max_parallelism) and is_power_of_two(parallelism)

    def spread(self, rows: DataFrame) -> DataFrame:
        """Rows with the key columns in the partitions of their shards."""
        return rows.repartition(self._parallelism, *map(F.col, self._keys))

    def holds(self, job: DataFrame) -> bool:
        """True if every row is in its shard's partition, as Spark says; not for an input with Python code.

        Args:
            job: one operation on rows that were made of an adopted frame.
        """
        spread = hash_partitions(job)
        if spread != (self._parallelism, self._keys) and (spread, self._parallelism) != ((1, ()), 1):
            return False
        _, _, below = executed_text(job).partition("\n")
        return not any(mark in below for mark in PYTHON_NODES)
