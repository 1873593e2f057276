"""Checkpoints: when they are taken (scheduler), what they say (metadata), where they live (store)."""
