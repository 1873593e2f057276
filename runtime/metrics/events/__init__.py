"""The events of a run: what they are, how they are written and read."""
