"""The API with which users write a job: frames, grouped rows, the writer."""
