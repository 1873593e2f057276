"""Lays out the graph of a job's stages for the report."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..events.events import EpochApplied, RunBegan
from ..units import size, span, whole

_BOX_WIDTH, _LINE, _PAD = 220.0, 17.0, 12.0
_APART_X, _APART_Y, _MARGIN = 64.0, 20.0, 8.0
#: Letters that a box has room for.
_LETTERS = 28
#: Lines that one thing which is said of a node may take.
_LINES = 3


@dataclass(frozen=True)
class Node:
    """An input, a stage or the sink."""

    name: str
    #: "source", "stage" or "sink".
    role: str
    #: What it is, in lines.
    lines: tuple[str, ...]
    #: Names of the nodes that it takes from.
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Box:
    """A node in its place."""

    node: Node
    x: float
    y: float
    height: float
    title: str
    lines: tuple[str, ...]

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        return self.x + _BOX_WIDTH


@dataclass(frozen=True)
class Graph:
    """All boxes, the arrows between them, and what it takes in words."""

    width: float
    height: float
    box_width: float
    boxes: tuple[Box, ...]
    arrows: tuple[str, ...]
    sentences: tuple[str, ...]


def nodes_of(began: RunBegan, epoch: EpochApplied | None) -> list[Node]:
    """The nodes of a job, in topological order.

    Args:
        began: says what the job is.
        epoch: its last one, for what stages hold; None: there was none.
    """
    found = [
        Node(f"{one.name} (input)", "source", tuple(filter(None, (one.kind, one.seam and f"seam: {one.seam}"))))
        for one in began.inputs
    ]
    progress = {} if epoch is None else {stage.uid: stage for stage in epoch.stages}
    for stage in began.stages:
        lines = [stage.operator, f"by {', '.join(stage.key)}" if stage.key else ""]
        if stage.event_time is not None and not stage.event_time.startswith("__"):  # one that the user knows
            lines.append(f"on {stage.event_time}, delay {span(stage.watermark_delay_ms)}")
        if stage.uid in progress:
            its = progress[stage.uid]
            lines.append(f"{whole(its.state_entries)} entries, {size(its.state_bytes)}")
        inputs = (*(f"{name} (input)" for name in stage.inputs), *stage.stages)
        found.append(Node(stage.uid, "stage", tuple(filter(None, lines)), inputs))
    if began.sink:
        found.append(Node("sink", "sink", (began.sink,), tuple(one.uid for one in began.stages if one.is_output)))
    return found


def graph(nodes: Sequence[Node]) -> Graph | None:
    """Columns by the longest way from a source; None: nothing is known of the graph."""
    if not nodes:
        return None
    column: dict[str, int] = {}
    for node in nodes:  # in topological order
        column[node.name] = max((column[one] + 1 for one in node.inputs if one in column), default=0)
    columns: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        columns[column[node.name]].append(node)
    heights = {place: sum(_height(node) for node in its) + _APART_Y * (len(its) - 1) for place, its in columns.items()}
    tallest = max(heights.values())
    boxes: dict[str, Box] = {}
    for place, its in sorted(columns.items()):
        y = _MARGIN + (tallest - heights[place]) / 2
        for node in its:
            x = _MARGIN + place * (_BOX_WIDTH + _APART_X)
            boxes[node.name] = Box(node, x, y, _height(node), short(node.name), _lines(node))
            y += _height(node) + _APART_Y
    arrows = [_arrow(boxes[one], boxes[node.name]) for node in nodes for one in node.inputs if one in boxes]
    width = 2 * _MARGIN + (max(columns) + 1) * _BOX_WIDTH + max(columns) * _APART_X
    sentences = [
        f"{node.name} ({', '.join((node.role, *node.lines))})"
        + (f" takes from {', '.join(node.inputs)}" if node.inputs else "")
        for node in nodes
    ]
    return Graph(width, tallest + 2 * _MARGIN, _BOX_WIDTH, tuple(boxes.values()), tuple(arrows), tuple(sentences))


def _height(node: Node) -> float:
    return 2 * _PAD + _LINE * (1 + len(_lines(node)))


def _lines(node: Node) -> tuple[str, ...]:
    """What the box has room for."""
    return tuple(
        line for text in node.lines for line in textwrap.wrap(text, _LETTERS + 2, max_lines=_LINES, placeholder=" …")
    )


def _arrow(one: Box, other: Box) -> str:
    left, right = one.right, other.x - 7
    bend = (right - left) / 2
    return (
        f"M{left:g} {one.middle:g} C{left + bend:g} {one.middle:g} {right - bend:g} {other.middle:g}"
        f" {right:g} {other.middle:g}"
    )


def short(text: str) -> str:
    """As much of it as a box has room for."""
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
