"""``mixedmode.delta``: Delta tables as inputs of a job.

For example:

    from mixedmode import delta

    orders = delta.read(spark, "lake/orders")
"""

from .planner.frames.readers.delta import read

__all__ = ["read"]
