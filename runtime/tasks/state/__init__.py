"""Tasks that read, change or compact state."""
