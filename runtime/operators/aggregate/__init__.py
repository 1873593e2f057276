"""Declarative aggregates: ``groupBy(...).agg(...)``."""
