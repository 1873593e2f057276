"""The tasks of a job and the channels between them.

Nothing here is as large as the number of channels: between two stages of 512 shards each there are a quarter of a
million.  A task numbers its channels by the edges that lead into it, and within one by the sender's subtask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .index_set import IndexSet

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
    #: Protocol only: the state of our stages is cut by key groups.
    union_state: bool = False

    @property
    def subtasks(self) -> IndexSet:
        """The numbers of its subtasks."""
        return IndexSet.below(self.parallelism)

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        return tuple(TaskId(self.name, index) for index in range(self.parallelism))


@dataclass(frozen=True)
class Edge:
    """What leads from one vertex to another.

    "one-to-one" is protocol only: what goes from stage to stage is shuffled.
    """

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

    @cached_property
    def _by_name(self) -> dict[str, Vertex]:
        return {vertex.name: vertex for vertex in self.vertices}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def vertex(self, name: str) -> Vertex:
        return self._by_name[name]

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """All tasks, those that records reach first in front."""
        return tuple(task for vertex in self.vertices for task in vertex.tasks)

    # -- edges and channels ------------------------------------------------------------------------------------------

    @cached_property
    def _inputs(self) -> dict[str, tuple[Edge, ...]]:
        return {name: tuple(edge for edge in self.edges if edge.target == name) for name in self._by_name}

    @cached_property
    def _outputs(self) -> dict[str, tuple[Edge, ...]]:
        return {name: tuple(edge for edge in self.edges if edge.source == name) for name in self._by_name}

    def inputs_of(self, name: str) -> tuple[Edge, ...]:
        """Edges that lead into a vertex."""
        return self._inputs[name]

    def outputs_of(self, name: str) -> tuple[Edge, ...]:
        """Edges that lead out of a vertex."""
        return self._outputs[name]

    def senders(self, edge: Edge) -> int:
        """Number of channels through which an edge leads into one subtask of its target."""
        return self.vertex(edge.source).parallelism if edge.pattern == "all-to-all" else 1

    def receivers(self, edge: Edge) -> int:
        """Number of channels through which an edge leads out of one subtask of its source."""
        return self.vertex(edge.target).parallelism if edge.pattern == "all-to-all" else 1

    @cached_property
    def _first_channels(self) -> dict[Edge, int]:
        return {
            edge: sum(self.senders(before) for before in edges[:place])
            for edges in self._inputs.values()
            for place, edge in enumerate(edges)
        }

    def first_channel(self, edge: Edge) -> int:
        """The number of an edge's first channel at each subtask of its target."""
        return self._first_channels[edge]
