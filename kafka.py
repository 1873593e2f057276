"""``mixedmode.kafka``: Kafka topics as inputs of a job."""

from .planner.frames.kafka import read, snapshot

__all__ = ["read", "snapshot"]
