"""Processors over two inputs."""
