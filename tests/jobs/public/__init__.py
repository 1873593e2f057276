"""The jobs, in files by kind."""
