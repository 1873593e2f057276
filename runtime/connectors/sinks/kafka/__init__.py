"""``format("kafka")``, exactly once: staged rows are sent in transactions that also commit how far they go."""
