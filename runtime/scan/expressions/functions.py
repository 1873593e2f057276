"""All functions of values; importing this module fills :data:`.values.FUNCTIONS`."""

from . import casts, numbers, texts, times

__all__ = ["casts", "numbers", "texts", "times"]
