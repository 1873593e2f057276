"""One run of a job on the driver: phases, epochs, checkpoints, recovery, endings."""
