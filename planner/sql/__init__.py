"""SQL over views of a job's rows: a statement becomes the calls that it stands for, and is refused where it cannot."""
