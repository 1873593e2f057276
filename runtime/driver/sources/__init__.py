"""The driver's knowledge of the sources: offsets, seams, data loss, files that are to be cleaned."""
