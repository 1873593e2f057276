"""Joins of two streams as keyed stages: conditions taken apart, bounds of event times, output columns."""
