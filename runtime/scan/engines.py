"""The columnar engines by name, as users choose them."""

from __future__ import annotations

from .columnar_engine import ArrowEngine, ColumnarEngine

#: The value of ``execution.backlog.engine`` that leaves the choice to the job.
AUTO = "auto"
#: By value of ``execution.backlog.engine``; ``auto`` takes the first one.
ENGINES: dict[str, ColumnarEngine] = {"arrow": ArrowEngine()}


#: By ``auto`` Spark reads files that have less together: it is faster, where it has been at work for a while.
LEAST_BYTES = 2 * 1024 * 1024
#: An application in which Spark has run fewer jobs compiles most of its own code in the first backlog that it reads.
FRESH_JOBS = 10


def engine_name(setting: str) -> str:
    """The name of the engine that a setting comes to.

    Args:
        setting: the value of ``execution.backlog.engine``, but for ``spark``.
    """
    return next(iter(ENGINES)) if setting == AUTO else setting
