"""``applyInPandasWithState``: a function with a ``GroupState``."""
