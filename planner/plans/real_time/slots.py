"""The task slots that a query in Real-Time Mode holds as long as it runs."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import SetupError

#: One more than the query holds: compaction of state and the jobs of other queries would wait for ever.
SPARE = 1
#: The option by which such a job runs as micro-batches instead.
FALLBACK = "execution.realtime.fallback"


@dataclass(frozen=True)
class Slots:
    """What a job needs, and what the application has."""

    #: Of the source's topic.
    partitions: int
    shards: int
    #: How many tasks can run at once in the application.
    available: int

    @property
    def needed(self) -> int:
        return self.partitions + self.shards + SPARE

    @property
    def are_enough(self) -> bool:
        return self.needed <= self.available

    @property
    def text(self) -> str:
        """The numbers, for ``explain()`` and errors."""
        return (
            f"{self.needed} of {self.available}: {self.partitions} for the source's partitions, {self.shards} for the"
            f" shards, {SPARE} to spare"
        )

    @property
    def shortage(self) -> str:
        """The first half of what is said where they are too few."""
        return (
            f"trigger(realTime=…) needs {self.needed} task slots and the application has {self.available}"
            f" ({self.partitions} partitions of the source + {self.shards} shards + {SPARE} to spare)"
        )

    @property
    def warning(self) -> str:
        """What is said if micro-batches take the place of Real-Time Mode."""
        return f"{self.shortage}: the live phase runs as micro-batches ({FALLBACK} = micro-batch)"

    def check(self) -> None:
        """Raise SetupError if they are too few."""
        if self.are_enough:
            return
        shards = self.available - self.partitions - SPARE
        fewer = f", set pipeline.parallelism to {shards} or less" if shards > 0 else ""
        raise SetupError(
            f"{self.shortage}. The tasks of a query in Real-Time Mode hold their slots as long as it runs; give the"
            f" application {self.needed - self.available} more cores{fewer}, or set {FALLBACK} = micro-batch",
            code="MIXEDMODE_REAL_TIME_SLOTS",
        )
