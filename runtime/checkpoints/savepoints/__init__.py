"""Savepoints: folders that hold a checkpoint and need nothing outside of them."""
