"""Keeps each shard's task on the executor that has its local copy.

A tiny table has one row per shard, each in a partition whose place is said when it is made, and an epoch's rows are
joined to it: Spark prefers to run the join's tasks where those partitions are.  The rows are cached, so Spark also
knows where a partition is that could not be where it was to be.

Invariants: a shard stays where it is unless its executor is lost or told to go, or others go without their share
(:func:`assign_shards`); executors are looked at before each job.

With a single executor there is nothing to choose, and the join would only cost.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import sha256

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...state.keys.keygroups import ShardId
from ..catalyst.prepared.placed_rows import PlacedNumbers
from ..catalyst.spark_cluster import Executors
from ..catalyst.spark_plans import executed_text
from ..tasks.shard.shard_routing import ShardRouting

logger = logging.getLogger(__name__)

_REDUCE_LOCALITY = "spark.shuffle.reduceLocality.enabled"
#: The column of the shard's number.
PLACEMENT_COLUMN = "__pin"


class ShardPlacement(ShardRouting):
    """One placed row for each shard.

    Args:
        spark: the session whose settings hold for the input.
        stage: its uid; stages with few shards begin with different executors.
        parallelism: number of shards.
    """

    placed_by = PLACEMENT_COLUMN

    def __init__(self, spark: SparkSession, stage: str, parallelism: int) -> None:
        self._stage = stage
        self.parallelism = parallelism
        # Adaptive execution would merge or split partitions; without it what Spark aggregates would have 200.
        settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": str(parallelism)}
        super().__init__(spark, settings)
        self._executors = Executors(spark)
        self._membership: frozenset[str] = frozenset()
        self._present: list[str] = []
        self._rows: PlacedNumbers | None = None

    @staticmethod
    def are_possible(spark: SparkSession) -> bool:
        """True if there may be executors to choose from, and Spark lets us choose.

        In local mode there is only the driver.  Unless told otherwise Spark also prefers the executors that hold most
        of a task's shuffled input, which are any; the session cannot tell it, only the application's configuration.
        """
        if re.match(r"local($|\[)", str(spark.sparkContext.master)):
            return False
        if spark.sparkContext.getConf().get(_REDUCE_LOCALITY, "true").lower() == "false":
            return True
        logger.warning(
            "shards move between executors in every epoch and must be restored: start Spark with %s=false, so that"
            " mixedmode can keep them in place",
            _REDUCE_LOCALITY,
        )
        return False

    def have_choice(self) -> bool:
        """Whether there are executors to choose from now; shards are dealt anew if others are there than before.

        By one thread at a time.
        """
        membership, expected = self._executors.membership()
        if membership != self._membership:
            before, self._present = self._present, self._executors.places()
            # One that has just come may not be given tasks yet: it is looked for again next time.
            self._membership = membership if len(self._present) == expected else frozenset()
            if len(self._present) > 1 and self._present != before:
                self._assign()
        return len(self._present) > 1 and self._rows is not None

    def beside(self, rows: DataFrame, shard_column: str) -> DataFrame:
        """``rows`` where their shards are placed; a shard without rows gets one that is null in every column.

        Args:
            rows: made of an adopted frame, distributed with ``repartitionById(parallelism, shard_column)``.
            shard_column: the column of the shard's number; the result has it no longer.
        """
        joined = self._placed.hint("shuffle_hash").join(rows, F.col(PLACEMENT_COLUMN) == F.col(shard_column), "left")
        return joined.drop(PLACEMENT_COLUMN, shard_column)

    def of(self, shards: Collection[ShardId]) -> DataFrame:
        """The placed rows of some shards; the other partitions are there, and empty."""
        return self._placed.where(f"{PLACEMENT_COLUMN} IN ({', '.join(map(str, shards))})")

    def holds(self, job: DataFrame) -> bool:
        """True if Spark's plan leaves the placed rows where they are: there is no exchange above their rows."""
        above, found, _ = executed_text(job).partition(f"ExistingRDD[{PLACEMENT_COLUMN}#")
        return bool(found) and "Exchange" not in above

    def close(self) -> None:
        """Let go of the cached rows."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()

    @property
    def _placed(self) -> DataFrame:
        assert self._rows is not None, "have_choice() comes first"
        return self._rows.frame

    def _assign(self) -> None:
        """Deal the shards to the executors that there are now."""
        before = [None] * self.parallelism if self._rows is None else self._rows.places()
        wanted = assign_shards(before, self._present, self._stage)
        if list(wanted) == before:
            return
        moved = [shard for shard, (place, then) in enumerate(zip(wanted, before, strict=True)) if place != then]
        if self._rows is not None:
            logger.info("shards %s of stage %s move; there are %d executors", moved, self._stage, len(self._present))
        old = self._rows
        try:
            self._rows = PlacedNumbers.of(self._session.session, PLACEMENT_COLUMN, wanted)
            self.assignment += 1
            if old is not None:
                old.close()
        except (Py4JError, PySparkException, TypeError, ValueError) as error:  # another version of Spark
            logger.warning(
                "shards are not kept on their executors: Spark does not accept preferred locations: %s", error
            )


def assign_shards(places: Sequence[str | None], executors: Collection[str], stage: str) -> tuple[str, ...]:
    """The executor of each shard, as evenly as possible and with as few moves as possible.

    A shard that moves is restored where it comes to, so one that has a place keeps it unless another executor would go
    without its share.  A new executor thus takes its share from those that have most, and what a lost one had is spread
    over the others.

    Args:
        places: where the shards are now; None: nowhere.
        executors: those that there are, at least one; what is elsewhere is nowhere.
        stage: its uid; the executors that have a shard more than others are not the same for all stages.

    Returns:
        Executors that differ by one shard at most; the same for the same arguments.
    """
    names = sorted(executors, key=lambda name: sha256(f"{stage} {name}".encode()).digest())
    held = Counter(place for place in places if place in executors)
    share, more = divmod(len(places), len(names))
    # Those that have most keep most: the ones with a shard more than others.
    by_load = sorted(names, key=lambda name: -held[name])
    room = {name: share + (number < more) for number, name in enumerate(by_load)}
    found: list[str | None] = []
    for place in places:
        keeps = place is not None and room.get(place, 0) > 0
        found.append(place if keeps else None)
        if keeps and place is not None:
            room[place] -= 1
    # In turn, so that neighbours come to different executors.
    free = [name for turn in range(share + 1) for name in by_load if room[name] > turn]
    return tuple(place if place is not None else free.pop(0) for place in found)
