"""Says what to use instead of a method of ``DataFrame`` that a job's rows do not have."""

from __future__ import annotations

#: Good for each input alone: no row depends on another one of a stream.
_STATELESS = ("lateralJoin",)
_OF_ALL_ROWS = (
    *(
        "exceptAll",
        "freqItems",
        "intersect",
        "intersectAll",
        "offset",
        "randomSplit",
        "sortWithinPartitions",
        "subtract",
    ),
    *("transpose", "zip", "zipWithIndex"),
)
_OF_PLANS = ("asTable", "exists", "scalar")
_OTHERS = {
    "explain": "use writeStream.explain(), which prints the plan of the whole job",
    "repartitionById": "a keyed stage distributes rows to its shards itself; leave it out, or set pipeline.parallelism",
    "toJSON": "use select(F.to_json(F.struct('*')).alias('value'))",
    "nearestByJoin": "use join with a static DataFrame",
    "metadataColumn": "select it from the frames that read() is given",
    "mergeInto": "merge in foreachBatch, into which each delivery goes",
    "write": "use writeStream, or write in foreachBatch",
    "writeTo": "use writeStream.toTable, or write in foreachBatch",
}


def hint_for(name: str) -> str:
    """What works instead of ``DataFrame``'s method, for the end of an error's text."""
    if name in _STATELESS:
        return f"transform(lambda frame: frame.{name}(…)) applies a stateless operation of DataFrame to both inputs"
    if name in _OF_ALL_ROWS:
        return "it needs all rows at once, which a stream never has; do it where the job's output is read"
    if name in _OF_PLANS:
        return "say it in SQL: frame.createOrReplaceTempView('v'), and then spark.sql('SELECT … FROM v …')"
    if name in _OTHERS:
        return _OTHERS[name]
    return (
        f"nothing runs before writeStream.start(); use {name} of a DataFrame that read() is given, or of one that reads"
        " the job's output, such as spark.table('t') behind writeStream.format('memory').queryName('t')"
        ".trigger(availableNow=True).start().awaitTermination()"
    )
