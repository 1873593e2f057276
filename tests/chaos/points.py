"""Where a run can be disturbed: the package's failpoints, and what may die at one."""

from __future__ import annotations

from dataclasses import dataclass

CHECKPOINT = (
    "checkpoint-start",
    "checkpoint-before-metadata",
    "checkpoint-after-metadata",
    "checkpoint-after-commit",
    "checkpoint-before-gc",
    "checkpoint-compacted",
    "checkpoint-after-compaction",
    "gc-after-metadata",
    "gc-between-files",
    "sink-between-files",
    "sink-after-function",
    "sink-delivered",
)
#: In the driver, from the start of the job to its live phase.
START = (
    "phase-backlog",
    "epoch-before-apply",
    "backlog-epoch-applied",
    "batch-before-spark-commit",
    "phase-switch",
    "phase-live",
    "checkpoint-before-metadata",
    "checkpoint-after-metadata",
    "sink-between-files",
)
LIVE = ("epoch-before-apply", "epoch-applied", "batch-before-spark-commit", *CHECKPOINT)
RESTART = ("recovery-after-commit", "phase-live")
SAVEPOINT = (
    "stop-before-work",
    "stop-before-copy",
    "stop-copied",
    "savepoint-copy",
    "savepoint-before-metadata",
    "savepoint-after-metadata",
    "checkpoint-before-metadata",
    "checkpoint-after-metadata",
    "checkpoint-after-commit",
    "completion-start",
    "restore-copy",
    "restore-before-metadata",
    "recovery-after-commit",
)
_TASK = ("start", "after-restore", "before-publish", "before-report")
#: In a Python worker.
TASK_START = tuple(f"task-{point}-sorted" for point in _TASK)
TASK_LIVE = (
    *(f"task-{point}-random" for point in _TASK),
    "compaction-start",
    "compaction-after-restore",
    "compaction-before-report",
    "publish-start",
    "publish-before-report",
)
#: What dies at a point in a worker, and the failpoint's word for it: in local mode the executor is the JVM.
TASK_VICTIMS = {
    "worker": "kill-once",
    "daemon": "kill-daemon-once",
    "jvm": "kill-executor-once",
    "executor": "kill-executor-once",
}


@dataclass(frozen=True)
class Disturbance:
    """Kills one process when the job has got somewhere.

    Args:
        point: a failpoint; ``*`` is any of the driver's.
        victim: ``driver``, ``jvm``, ``executor`` (of a cluster), ``daemon`` or ``worker``.
        in_task: whether the point is one of a task.
        nth: the how manieth time the point is reached since the disturbance was armed.
        after_ms: how long after that.
    """

    point: str
    victim: str
    in_task: bool = False
    nth: int = 1
    after_ms: int = 0

    @property
    def is_fatal(self) -> bool:
        """Whether it takes a new driver to go on."""
        return self.victim in ("driver", "jvm")

    def __str__(self) -> str:
        nth = f" (hit {self.nth})" if self.nth > 1 else ""
        after = f" + {self.after_ms} ms" if self.after_ms else ""
        return f"{self.victim} at {self.point}{nth}{after}"
