"""Joins of two streams over keyed state: rows wait, by key and side, for the partners that may still come."""
