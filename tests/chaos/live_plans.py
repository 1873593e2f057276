"""A disturbed run in Real-Time Mode: its job, its backlog, and what is done to it; all of it follows from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from live_points import CASES, LiveDisturbance

KINDS = ("processor", "aggregate", "deduplication")
PARTITIONS, KEYS = 2, 7
#: Rows of a second while a run is disturbed.
RATE = 40


@dataclass(frozen=True)
class LivePlan:
    """A run."""

    seed: int
    number: int
    kind: str
    #: Rows that are there when it begins.
    backlog: int
    disturbances: tuple[LiveDisturbance, ...]
    #: Whether it goes on with micro-batches, and then in Real-Time Mode again, when it was disturbed.
    changes: bool
    #: Whether a driver that follows one that died begins with micro-batches.
    changes_at_restart: bool
    compacts_eagerly: bool

    @property
    def chance(self) -> random.Random:
        """For what happens on the way."""
        return random.Random(f"{self.seed}/{self.number}/way")

    def __str__(self) -> str:
        changes = ", micro-batches behind a loss" if self.changes_at_restart else ""
        return f"{self.kind}, backlog of {self.backlog}{', micro-batches at the end' if self.changes else ''}{changes}"


def plan_of(seed: int, number: int) -> LivePlan:
    """The run of a seed and a number.

    Runs that follow each other go through all cases, in an order that the seed makes.
    """
    order = random.Random(seed).sample(CASES, len(CASES))
    chance = random.Random(f"{seed}/{number}")
    cases = [order[number % len(order)]]
    if chance.random() < 0.4:
        cases.append(chance.choice(CASES))
    disturbances = tuple(
        LiveDisturbance(*case, stop_s=chance.uniform(0.3, 4), after_s=chance.uniform(0, 3)) for case in cases
    )
    kind = KINDS[(number + seed) % len(KINDS)]
    # A reader that wants each message once cannot tell what micro-batches replace, so such jobs change when an epoch
    # has ended only.
    changes_at_restart = kind == "aggregate" and chance.random() < 0.5
    return LivePlan(
        seed,
        number,
        kind,
        chance.randint(20, 60),
        disturbances,
        changes=chance.random() < 0.4,
        changes_at_restart=changes_at_restart,
        compacts_eagerly=chance.random() < 0.3,
    )
