"""One driver per checkpoint location."""
