"""Words what a live phase in Real-Time Mode promises and what it costs."""

from __future__ import annotations

from ....runtime.connectors.sinks.kafka.live_messages import (
    EPOCH_HEADER,
    RUN_HEADER,
    SEQUENCE_HEADER,
    SHARD_HEADER,
    SINCE_HEADER,
)
from ...options.values import format_duration_ms

HEADERS = (RUN_HEADER, SINCE_HEADER, EPOCH_HEADER, SHARD_HEADER, SEQUENCE_HEADER)
REASON = (
    "the live source has no end, and trigger(realTime=…) asks for answers in milliseconds: Spark's Real-Time Mode until"
    " the query is stopped"
)


def real_time_details(epoch_ms: int, slots: str, watermark: str | None) -> dict[str, str]:
    """The details of the phase that are not those of micro-batches.

    Args:
        epoch_ms: length of an epoch.
        slots: the task slots, in words.
        watermark: what it is in micro-batches; None: there is none.
    """
    epoch = format_duration_ms(epoch_ms)
    moves = {"watermark": f"{watermark}; it moves at an epoch's end, where timers of keys without rows fire"}
    return {
        "scheduling": f"Real-Time Mode: one Spark job for each epoch of {epoch}; rows are processed as they come",
        **({} if watermark is None else moves),
        "checkpoints": (
            f"one at each epoch's end, every {epoch}, if the rows that the shards counted are the epoch's offsets;"
            " execution.checkpointing.interval does not apply"
        ),
        "state": "exactly once: an epoch changes it as a whole, or not at all",
        "output": (
            "sent at once, and at least once: after a failure messages of the unfinished epoch come again, perhaps with"
            f" other contents. The headers {', '.join(HEADERS)} let a reader drop what was"
            " replaced; of a key the message with the greatest run, epoch and sequence counts. A reader that needs"
            " read_committed needs micro-batches: trigger(processingTime=…)"
        ),
        "task slots": f"{slots}; held as long as the query runs",
    }
