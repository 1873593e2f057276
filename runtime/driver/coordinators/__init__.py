"""Operator coordinators, and the events between them and the tasks."""
