"""Walking Spark's expressions through the gateway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def class_name(node: Any) -> str:
    """The simple name of a node's class."""
    return str(node.getClass().getSimpleName())


def items(sequence: Any) -> Iterator[Any]:
    """The members of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def tree(node: Any) -> Iterator[Any]:
    """A node and everything below it."""
    yield node
    for child in items(node.children()):
        yield from tree(child)


def without_alias(expression: Any) -> Any:
    """The expression below its names."""
    while class_name(expression) == "Alias":
        expression = expression.child()
    return expression


def with_children(jvm: Any, node: Any, children: Sequence[Any]) -> Any:
    """A copy of the node over other children."""
    return node.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(children)))
