"""Python workers: set-up, sockets, tasks, memory."""
