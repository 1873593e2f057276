"""``mixedmode.delta``: Delta tables as inputs of a job."""

from .planner.frames.delta import read

__all__ = ["read"]
