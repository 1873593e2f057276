"""What the user says and what we decide."""
