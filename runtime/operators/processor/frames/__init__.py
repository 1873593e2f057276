"""``transformWithStateInPandas``: rows as pandas frames."""
