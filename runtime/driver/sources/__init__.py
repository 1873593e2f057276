"""What the driver knows of the sources: offsets, seams, losses."""
