"""``mixedmode.iceberg``: Iceberg tables as inputs of a job.

For example:

    from mixedmode import iceberg

    orders = iceberg.read(spark, "lake.orders")
"""

from .planner.frames.readers.iceberg import read

__all__ = ["read"]
