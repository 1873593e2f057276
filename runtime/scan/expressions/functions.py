"""All functions of values; importing this module fills :data:`.values.FUNCTIONS`."""

from . import casts, json_fields, numbers, patterns, rounding, texts, times

__all__ = ["casts", "json_fields", "numbers", "patterns", "rounding", "texts", "times"]
