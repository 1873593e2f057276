"""``mixedmode.kafka``: Kafka topics as inputs of a job.

For example:

    from mixedmode import kafka

    orders = kafka.read(spark, "broker:9092", "orders", parse=lambda rows: rows.selectExpr("cast(value AS string)"))
"""

from .planner.frames.readers.kafka import read, snapshot

__all__ = ["read", "snapshot"]
