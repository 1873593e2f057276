"""Chooses who sorts a sorted pass: our external sorter in the Python worker, or Spark in the JVM.

Both give the same order.  What was measured with a processor (whole jobs, 3 M rows, two cores): rows that fit into
``sorter.memory`` are done 1.2 to 1.4 times faster with our sorter, as columns sort faster than rows; at three to ten
times the memory there is no difference; at 20 times and more, our sorter takes twice as long as Spark's.  Ours keeps
to its budget; Spark's uses the executor's memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options.values import format_size_bytes

if TYPE_CHECKING:
    from ...runtime.spec import Settings, SortEngine

#: From this multiple of ``sorter.memory`` on, ``auto`` lets Spark sort.
SPARK_FROM = 10


@dataclass(frozen=True)
class EngineChoice:
    """Who sorts in the sorted style, and why."""

    engine: SortEngine
    reason: str


def choose_sorter(settings: Settings, bytes_per_shard: int | None = None) -> EngineChoice:
    """The sorter behind ``sorter.engine``.

    Args:
        settings: the job's settings.
        bytes_per_shard: about how much each shard has to sort; None: not known, or little.
    """
    memory, spill = settings.sorter_memory_bytes, settings.sorter_spill_dir or "the executor's scratch folder"
    ours = f"in the Python worker, with {format_size_bytes(memory)} per task (sorter.memory), spills to {spill}"
    if settings.sorter_engine == "spark":
        return EngineChoice("spark", "sorter.engine = spark: rows are sorted in the JVM before they cross into Python")
    if settings.sorter_engine == "arrow":
        return EngineChoice("arrow", f"sorter.engine = arrow; {ours}")
    if bytes_per_shard is None:
        return EngineChoice("arrow", f"auto: columns sort faster than rows; {ours}")
    size = f"by Spark's statistics a shard has {format_size_bytes(bytes_per_shard)} to sort"
    if bytes_per_shard < SPARK_FROM * memory:
        return EngineChoice(
            "arrow", f"auto: {size}, and up to {SPARK_FROM} x sorter.memory arrow is at least as fast as spark; {ours}"
        )
    return EngineChoice("spark", f"auto: {size}, {SPARK_FROM} x sorter.memory or more, where Spark's sort is faster")
