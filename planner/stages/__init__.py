"""Keyed stages as the planner describes them."""
