"""Aggregates, from what Spark's analyzer says of them."""
