"""What users ask of a running job from another thread or process, in queues until the run takes it."""
