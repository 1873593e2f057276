"""Public stateful PySpark jobs as shapes: what each keys, windows, aggregates and writes, and whether it moves here."""
