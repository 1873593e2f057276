"""Says which operators of a checkpoint had finished, and whether a job may go on from it.

A job that was changed may put an operator that still runs before one that has finished: the finished one would never
look at what comes.  Such a job is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from ....errors import CheckpointMismatchError
from .graph import Edge, JobGraph


class Finished(Enum):
    """How far an operator had finished."""

    NOT = "running"
    PARTLY = "partly finished"
    FULLY = "finished"


def of_subtasks(finished: Iterable[bool]) -> Finished:
    """How far an operator has finished, from its subtasks."""
    flags = list(finished)
    if flags and all(flags):
        return Finished.FULLY
    return Finished.PARTLY if any(flags) else Finished.NOT


def check_finished(graph: JobGraph, stored: Mapping[str, Finished], where: str) -> None:
    """Check that what comes before a finished operator has finished too.

    Args:
        graph: the job that is to go on.
        stored: how far the operators of the checkpoint had finished; one that is not named is new, and runs.
        where: names the checkpoint in errors.

    Raises:
        CheckpointMismatchError: it has not.
    """
    for vertex in graph.vertices:
        state = stored.get(vertex.name, Finished.NOT)
        if state is Finished.NOT:
            continue
        for name, pattern in _strictest(graph.inputs_of(vertex.name)).items():
            before = stored.get(name, Finished.NOT)
            fits = before is Finished.FULLY or (
                state is Finished.PARTLY and pattern == "one-to-one" and before is Finished.PARTLY
            )
            if not fits:
                new = " (it is not in the checkpoint)" if name not in stored else ""
                raise CheckpointMismatchError(
                    f"{vertex.name!r} is {state.value} in {where}, but {name!r}, which feeds it, is {before.value}"
                    f"{new}: what it sends would never be looked at. Leave {name!r} out, or start with a new"
                    " checkpointLocation [upgrade:U24]"
                )


def _strictest(edges: Collection[Edge]) -> dict[str, str]:
    """The pattern that counts between two vertices, by the first one's name: all-to-all wins."""
    patterns: dict[str, str] = {}
    for edge in edges:
        if patterns.get(edge.source) != "all-to-all":
            patterns[edge.source] = edge.pattern
    return patterns
