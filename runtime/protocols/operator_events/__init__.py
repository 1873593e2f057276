"""Operator events: what a coordinator on the driver and the subtasks (shards) of a keyed stage tell each other.

Both directions are consistent with checkpoints (Flink's FLINK-28606 and FLINK-28639): across failures, each end
receives each event exactly once and in order.  A checkpoint goes through six steps:

1. the coordinator's checkpoint begins; every subtask is told to close its gateway to the coordinator;
2. a subtask answers with a marker, the last that the coordinator hears of it before the checkpoint, and closes;
3. when all markers are there, the coordinator takes its snapshot and the gateways to the subtasks close;
4. what either end sends from here on is buffered where it was sent;
5. a subtask's snapshot holds what it has buffered, and what had been sent to it and it has not taken yet;
6. the gateways open, and what was buffered goes on its way, in order.

:mod:`.gateway`, :mod:`.subtask` and :mod:`.coordinator_holder` are the protocol; :mod:`.channel` drives it for a job.
Nothing in here does any IO, knows a clock or starts a thread.
"""
