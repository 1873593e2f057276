"""A job that runs, as somebody at a terminal, in a notebook or behind a pipe sees it."""
