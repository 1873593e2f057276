"""The rows of a join that wait for partners, as state."""
