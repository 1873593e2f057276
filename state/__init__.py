"""Keyed state: codecs, backends, timers, files.  Knows nothing of Spark."""
