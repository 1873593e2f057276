"""The tasks of a job and the channels between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Pattern = Literal["all-to-all", "one-to-one"]


@dataclass(frozen=True, order=True)
class TaskId:
    """One subtask of a vertex."""

    vertex: str
    index: int

    def __str__(self) -> str:
        return f"{self.vertex}[{self.index}]"


@dataclass(frozen=True)
class Vertex:
    """An operator with its parallelism."""

    name: str
    parallelism: int
    #: True if every subtask gets the union of all subtasks' state on restore: it must finish everywhere or nowhere.
    union_state: bool = False

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        return tuple(TaskId(self.name, index) for index in range(self.parallelism))


@dataclass(frozen=True)
class Edge:
    """What leads from one vertex to another."""

    source: str
    target: str
    pattern: Pattern = "all-to-all"


@dataclass(frozen=True)
class JobGraph:
    """Vertices in the order in which records flow, and the edges between them."""

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        places = {vertex.name: place for place, vertex in enumerate(self.vertices)}
        if len(places) != len(self.vertices):
            raise ValueError(f"vertices must have different names, got {[vertex.name for vertex in self.vertices]}")
        for edge in self.edges:
            if not (edge.source in places and edge.target in places and places[edge.source] < places[edge.target]):
                raise ValueError(f"{edge} does not lead from a vertex to a later one of {list(places)}")
            if edge.pattern == "one-to-one":
                widths = self.vertex(edge.source).parallelism, self.vertex(edge.target).parallelism
                if widths[0] != widths[1]:
                    raise ValueError(f"{edge} is one-to-one between {widths[0]} and {widths[1]} subtasks")

    @staticmethod
    def of_job(sources: Sequence[str], stage: str, shards: int, sink: str = "sink") -> JobGraph:
        """Every source into every shard of one keyed stage, every shard into the sink."""
        return JobGraph(
            (*(Vertex(name, 1) for name in sources), Vertex(stage, shards), Vertex(sink, 1)),
            (*(Edge(name, stage) for name in sources), Edge(stage, sink)),
        )

    def vertex(self, name: str) -> Vertex:
        return next(vertex for vertex in self.vertices if vertex.name == name)

    @cached_property
    def tasks(self) -> tuple[TaskId, ...]:
        """All tasks, those that records reach first in front."""
        return tuple(task for vertex in self.vertices for task in vertex.tasks)

    def inputs_of(self, name: str) -> tuple[Edge, ...]:
        """Edges that lead into a vertex."""
        return tuple(edge for edge in self.edges if edge.target == name)

    @cached_property
    def _links(self) -> tuple[dict[TaskId, list[TaskId]], dict[TaskId, list[TaskId]]]:
        senders: dict[TaskId, list[TaskId]] = {task: [] for task in self.tasks}
        receivers: dict[TaskId, list[TaskId]] = {task: [] for task in self.tasks}
        for edge in self.edges:
            targets = self.vertex(edge.target).tasks
            for sender in self.vertex(edge.source).tasks:
                for target in targets if edge.pattern == "all-to-all" else (targets[sender.index],):
                    senders[target].append(sender)
                    receivers[sender].append(target)
        return senders, receivers

    @cached_property
    def _channels(self) -> dict[tuple[TaskId, TaskId], int]:
        return {
            (sender, task): channel
            for task, senders in self._links[0].items()
            for channel, sender in enumerate(senders)
        }

    def channel(self, sender: TaskId, receiver: TaskId) -> int:
        """The number of the receiver's channel that a sender's events come on."""
        return self._channels[sender, receiver]

    def senders(self, task: TaskId) -> list[TaskId]:
        """Tasks whose records a task gets; a channel's number is the sender's place in the list."""
        return self._links[0][task]

    def receivers(self, task: TaskId) -> list[TaskId]:
        """Tasks that get a task's records."""
        return self._links[1][task]
