"""Assigns shards to executors, as evenly as possible and with as few moves as possible.

A shard that moves is restored where it comes to, so one that has a place keeps it unless another executor would go
without its share.  A new executor thus takes its share from those that have most, and what a lost one had is spread
over the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import sha256


def assign_shards(places: Sequence[str | None], executors: Collection[str], stage: str) -> tuple[str, ...]:
    """The executor of each shard.

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
