"""Parts of the handle of a running job, each what its users can ask for."""
