"""Deduplication over keyed state: ``dropDuplicates``, ``dropDuplicatesWithinWatermark`` and ``distinct``."""
