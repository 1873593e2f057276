"""Numbers and names that are not to be mixed up with others: what takes one takes no plain ``int`` or ``str``.

That of a shard, which state knows too, is in ``state/keys/keygroups.py``.
"""

from __future__ import annotations

from typing import NewType

#: Of a checkpoint of one job: they ascend, over restarts and branches.
CheckpointId = NewType("CheckpointId", int)

#: What a job has before its first checkpoint.
NO_CHECKPOINT = CheckpointId(0)

#: Of an epoch of one job, counted from 1: not every epoch has a micro-batch, nor every micro-batch an epoch.
EpochNumber = NewType("EpochNumber", int)

#: What a job has before its first epoch.
NO_EPOCH = EpochNumber(0)

#: Spark's, of a micro-batch of the live source's query.
BatchId = NewType("BatchId", int)

#: What a job has before its first micro-batch.
NO_BATCH = BatchId(-1)

#: Of a query's first micro-batch.
FIRST_BATCH = BatchId(0)

#: Of a job: the same over restarts from one checkpoint location.
JobId = NewType("JobId", str)

#: Stands for a job that has none yet.
NO_JOB = JobId("")

#: Of a run, in the names of its files and threads: the first letters of the handle's ``runId``.
RunId = NewType("RunId", str)

#: Of who has no run: a reader of a location, for one.
NO_RUN = RunId("")

#: Spark's, of an attempt of a task: they begin again with each Spark application.
TaskAttemptId = NewType("TaskAttemptId", int)
