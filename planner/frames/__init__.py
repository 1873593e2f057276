"""What a user writes a job with: frames, grouped rows, the writer."""
