"""Typical costs of the parts of a sorted pass, by who reads, who sorts, and what the stage does.

Only ratios matter: the part that runs first says how fast the machines are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Tasks scan files and leave runs; Spark brings rows to the shards, and sorts them there; it leaves that to the tasks.
Rows = Literal["scanned", "sorted", "unsorted"]


@dataclass(frozen=True)
class PassCosts:
    """Time per row, against each other."""

    #: Of a row that is read.
    read: float
    #: Of a row that is handed to the shards (of an aggregate: of some rows of one key): in what comes before the
    #: shards; in the shards until the first one is there; until the operator has all; and in the operator.
    hand: float
    wait: float
    take: float
    work: float
    #: How far the operator's time is from that, as the standard deviation of its logarithm.
    spread: float = 0.3

    def before(self, handed: float) -> float:
        """Before the shards, for each row that is read; ``handed``: rows handed on for each of those."""
        return self.read + self.hand * handed


#: A Python processor may do anything.
_ANYTHING = 0.9
#: Measured in passes of 0.2 to 90 million rows (20 to 80 seconds, two cores that others used, too): aggregates of few
#: and many keys, numbers, decimals and texts, deduplications, a join, and processors by row and in pandas.  What is
#: read and what is handed on before the shards are told apart by a guess.  Where Spark sorts, and deduplications and
#: joins that it reads, are derived from the others.
_COSTS: dict[tuple[Rows, str], PassCosts] = {
    ("scanned", "agg"): PassCosts(0.15, 0.2, 0.0, 0.05, 0.26, 0.25),
    ("scanned", "dropDuplicates"): PassCosts(0.2, 0.2, 0.0, 0.05, 0.25, 0.35),
    ("scanned", "join"): PassCosts(0.2, 0.2, 0.0, 0.05, 1.7, 0.7),
    ("sorted", "agg"): PassCosts(0.3, 0.4, 1.9, 0.1, 1.5, 0.5),
    ("sorted", "dropDuplicates"): PassCosts(0.3, 0.4, 0.5, 0.1, 1.0),
    ("sorted", "join"): PassCosts(0.3, 0.4, 1.0, 0.1, 1.5, 0.7),
    ("unsorted", "agg"): PassCosts(0.3, 0.4, 1.9, 0.8, 0.85, 0.5),
    ("unsorted", "dropDuplicates"): PassCosts(0.3, 0.4, 0.1, 0.5, 0.5),
    ("unsorted", "join"): PassCosts(0.3, 0.4, 1.0, 0.5, 1.5, 0.7),
}
_OTHERS: dict[Rows, PassCosts] = {
    "scanned": PassCosts(0.2, 0.2, 0.0, 0.4, 1.0, _ANYTHING),
    "sorted": PassCosts(0.3, 0.4, 0.5, 0.1, 1.0, _ANYTHING),
    "unsorted": PassCosts(0.3, 0.4, 0.1, 0.7, 1.0, _ANYTHING),
}


def pass_costs(rows: Rows, kind: str) -> PassCosts:
    """What is known of a pass.

    Args:
        rows: how they come to the operator.
        kind: of the operator.
    """
    return _COSTS.get((rows, kind.removesuffix("WithinWatermark")), _OTHERS[rows])
