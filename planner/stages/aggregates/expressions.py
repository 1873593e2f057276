"""Walking Spark's expressions through the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
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


def with_attributes(jvm: Any, node: Any, known: Mapping[int, Any]) -> Any:
    """The expression with attributes replaced, by the id of each."""
    return replaced(
        jvm, node, lambda one: known.get(one.exprId().id()) if class_name(one) == "AttributeReference" else None
    )


def replaced(jvm: Any, node: Any, other: Callable[[Any], Any]) -> Any:
    """The expression with nodes replaced by what the function gives for them; None: the node stays."""
    found = other(node)
    if found is not None:
        return found
    children = list(items(node.children()))
    new = [replaced(jvm, child, other) for child in children]
    return node if all(map(is_, new, children)) else with_children(jvm, node, new)
