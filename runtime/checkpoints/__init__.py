"""Checkpoints: what they say (metadata), where they live (store), whose they are (identity, lease), savepoints."""
