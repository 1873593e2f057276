"""Rules without disk, clock or thread: lifecycle, checkpoints, operator events, watermarks, event time."""
