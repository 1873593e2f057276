"""A run from `start()` to its end: phases, pauses, rescaling, shutdown."""
