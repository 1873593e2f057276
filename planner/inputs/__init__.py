"""The inputs of a job, and what the job stands on."""
