"""The parts of ``examples/demo.py``: real flights, two keyed jobs over them, and a comparison with plain Spark."""
