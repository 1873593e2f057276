"""All functions of values; importing this module fills :data:`.values.FUNCTIONS`."""

from . import casts, numbers, patterns, rounding, texts, times

__all__ = ["casts", "numbers", "patterns", "rounding", "texts", "times"]
