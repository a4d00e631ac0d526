"""Streams and permissions: the registry, and the commands that change permissions."""
