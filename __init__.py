"""mixedmode: one PySpark job, first at batch speed through its backlog, then as a stream."""
