"""The code that runs in Spark tasks: shards of a stage, scans of files, reads and changes of state."""
