"""The inputs of a job (history and live sources), their schemas and event times, and the environment it runs in."""
