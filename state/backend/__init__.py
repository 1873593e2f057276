"""Keyed state: the contract, and its two kinds: a sorted pass and random access."""
