"""One epoch on the driver: what the stages are sent, and what they report."""
