"""Requests of users to a running job, from another thread or process, in queues until the run takes them."""
