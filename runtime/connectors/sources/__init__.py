"""Sources: the history as a bounded table, and the live sources' streaming query."""
