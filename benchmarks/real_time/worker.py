"""What a process of shards keeps from epoch to epoch, and may be without: its Kafka producer, its watch of ``gc``."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from timeline import Timeline

#: How long it waits for more messages.
_LINGER_MS = 2
#: Collections that take longer are in the timeline.
_LONG_S = 0.005

_producers: dict[str, Producer] = {}
_watches: list[Callable[[str, dict[str, Any]], None]] = []


def kafka_producer(bootstrap: str, topic: str, log: Timeline) -> Producer:
    """The process's producer; a new one takes up to 120 ms until it can send."""
    if bootstrap not in _producers:
        made = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": _LINGER_MS, "queue.buffering.max.messages": 1_000_000}
        )
        made.list_topics(topic, 30)
        _producers[bootstrap] = made
        log("shard producer made")
    return _producers[bootstrap]


def watch_collections(log: Timeline) -> None:
    """Write long collections down, and no longer for the epoch before."""
    began = 0.0

    def watch(phase: str, told: dict[str, Any]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        elif (took := time.perf_counter() - began) > _LONG_S:
            log("python gc", ms=round(took * 1e3, 1), generation=told["generation"])

    while _watches:
        gc.callbacks.remove(_watches.pop())
    _watches.append(watch)
    gc.callbacks.append(watch)
