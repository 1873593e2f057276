"""External key sort over Arrow record batches: runs, spill, merge, within a memory budget.  No Spark in here."""

from .external import ExternalSorter, SortStats

__all__ = ["ExternalSorter", "SortStats"]
