"""Public jobs that run: on stock Structured Streaming and on mixedmode, compared as the job's sink sees it."""
