"""Where tests kill the tasks of a job."""

from __future__ import annotations

#: Where a shard task can be killed, in the sorted pass of the backlog and in the epochs of the stream.
TASK_POINTS = [
    f"task-{point}-{style}"
    for style in ("sorted", "random")
    for point in ("start", "after-restore", "before-publish", "before-report")
]
#: And where a compaction's task can.
COMPACTION_POINTS = [f"compaction-{point}" for point in ("start", "after-restore", "before-report")]
#: And where the second half of a task can, which stages what Spark has computed of an operator's rows.
PUBLISH_POINTS = ["publish-start", "publish-before-report"]
#: And where a task can that works on all shards of a small backlog or epoch.
ONE_TASK_POINTS = [
    f"task-{point}-{style}" for style in ("sorted", "random") for point in ("between-shards", "before-report")
]
#: And where a task can that stages rows of Spark's own partitions.
TAIL_POINTS = ["tail-before-report"]
