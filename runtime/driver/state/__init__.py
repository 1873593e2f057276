"""The state of a run: of the job, of each stage, and of what is handed from stage to stage."""
