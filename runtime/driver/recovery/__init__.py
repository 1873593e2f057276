"""From a checkpoint or a savepoint to a running job."""
