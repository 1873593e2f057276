"""``mixedmode.iceberg``: Iceberg tables as inputs of a job."""

from .planner.frames.iceberg import read

__all__ = ["read"]
