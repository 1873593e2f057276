"""What to do instead of a method of ``DataFrame`` that a job's rows before ``groupBy`` do not have."""

from __future__ import annotations

#: Good for each input alone: no row depends on another one of a stream.
_STATELESS = (
    *("alias", "coalesce", "hint", "lateralJoin", "melt"),
    *("repartition", "replace", "to", "toDF", "unpivot", "withMetadata"),
)
_OF_ALL_ROWS = (
    *("exceptAll", "intersect", "intersectAll", "offset", "randomSplit", "subtract"),
    *("transpose", "zip", "zipWithIndex"),
)
_GROUPINGS = ("cube", "groupingSets", "rollup")


def hint_for(name: str) -> str:
    """What works instead of ``DataFrame``'s method, for the end of an error's text."""
    if name in _STATELESS:
        return f"transform(lambda frame: frame.{name}(…)) applies a stateless operation of DataFrame to both inputs"
    if name in _OF_ALL_ROWS:
        return "it needs all rows at once, which a stream never has; do it where the job's output is read"
    if name in _GROUPINGS:
        return "use groupBy(…), and one job for each grouping"
    return (
        f"nothing runs before writeStream.start(); use {name} of a DataFrame that read() is given, or of one that reads"
        " the job's output, such as spark.table('t') behind writeStream.format('memory').queryName('t')"
        ".trigger(availableNow=True).start().awaitTermination()"
    )
