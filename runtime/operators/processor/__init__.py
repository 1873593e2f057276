"""A PySpark ``StatefulProcessor`` over keyed state."""
