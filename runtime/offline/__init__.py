"""State without a job: savepoints built and changed by Spark jobs of their own."""
