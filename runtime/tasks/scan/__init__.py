"""Tasks of the columnar scan."""
