"""What is known of a public job: facts, and a function that says the same chain on any frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Frames(Protocol):
    """Where a job's frames come from: the one line that changes when a job moves."""

    spark: SparkSession

    def stream(self, name: str) -> Any:
        """The rows of a source that the public job reads as a stream."""

    def table(self, name: str) -> DataFrame:
        """A static table."""


Build = Callable[[Frames], Any]

#: Sinks that a test machine does not have; the rows go to a function instead.
FUNCTION_SINKS = ("foreachBatch", "cassandra", "delta", "jdbc", "kafka")


@dataclass(frozen=True)
class Shape:
    """One stateful query of a public repository or page.

    Args:
        name: of the function that builds it.
        facts: source, keys, window, aggregates, what comes before and after the stage.
        reference: repository and path, or address, where it was found.
        build: the chain up to ``writeStream``, on any frames.
        output_mode: as the job writes it.
        sink: the format that the job writes; one of FUNCTION_SINKS is replaced by a function.
        trigger: as the job writes it; empty: none.
        needs: parts that the job cannot do without; see the catalogue.
        closes: its results are only out when event time has moved past them, so a row far later is added.
        runs_as: the shape that runs in its place, since it is equal in kind; None: it runs.
        oracle: what plain Spark makes of all rows as a batch; None: ``build`` on batch frames.
        columns: those that are compared; empty: all.
        ordered: the order of the result's rows is part of it.
    """

    name: str
    facts: str
    reference: str
    build: Build
    output_mode: str = "append"
    sink: str = "console"
    trigger: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    closes: bool = False
    runs_as: str | None = None
    oracle: Build | None = None
    columns: tuple[str, ...] = ()
    ordered: bool = False


def public_job(
    shapes: list[Shape], reference: str, output_mode: str, sink: str, **more: Any
) -> Callable[[Build], Build]:
    """Add the decorated function to ``shapes``; its docstring says the facts.

    Args:
        shapes: the list of its file.
        reference: see :class:`Shape`.
        output_mode: see :class:`Shape`.
        sink: see :class:`Shape`.
        more: further fields of :class:`Shape`.
    """

    def keep(build: Build) -> Build:
        name = build.__name__  # type: ignore[attr-defined]
        facts = " ".join((build.__doc__ or "").split())
        shapes.append(Shape(name, facts, reference, build, output_mode, sink, **more))
        return build

    return keep
