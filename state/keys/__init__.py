"""Keys: their bytes, hashes and key groups."""
