"""Plans the Spark query of a live phase in Real-Time Mode."""
