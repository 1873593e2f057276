"""Where the rows of a job go: its sink, its output mode, locations that do not meet."""
