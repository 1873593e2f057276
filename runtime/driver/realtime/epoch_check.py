"""Decides whether an epoch in Real-Time Mode is whole, and so may be committed.

It is if Spark says that the batch has succeeded, each shard has reported in the folder of this run, and the messages
that the shards have counted are just those of the batch.  None of these alone is proof: the rows of a shard end
normally where a query is stopped or a sibling has failed, reports come from tasks of queries that are gone, and Spark
knows nothing of what its workers have seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import QueryError
from ...support.ids import BatchId
from ...tasks.realtime.run_folder import RealTimeReport, SeenMessages
from .realtime_query import BatchEnd, SourcePosition


def check_whole(
    batch: BatchId, committed: SourcePosition | None, told: BatchEnd, reports: Sequence[RealTimeReport]
) -> None:
    """Raise QueryError if an epoch is not whole.

    Args:
        batch: its number.
        committed: the position behind the epoch before; None: the source began with this one.
        told: what Spark says of it.
        reports: those of all shards.
    """
    start = told.start if committed is None else committed
    if committed is not None and told.start is not None and told.start.offsets != committed.offsets:
        raise QueryError(
            f"batch {batch} began at {told.start.text}, and what is committed ends at {committed.text}; nothing of it"
            " is committed. Start the query again"
        )
    seen = SeenMessages()
    for report in reports:
        seen.include(report.seen)
    if not seen.are_all({} if start is None else start.offsets, told.end.offsets):
        counted = dict(sorted(seen.counts.items()))
        raise QueryError(
            f"the shards have had {counted} messages, by partition, of batch {batch} from"
            f" {'the beginning' if start is None else start.text} to {told.end.text}; nothing of it is committed. If"
            " the topic is compacted or has transactions, its offsets have gaps: use micro-batches"
        )
