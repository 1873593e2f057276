"""Computing in tasks, with Arrow, what Spark's expressions over columns of files give."""
