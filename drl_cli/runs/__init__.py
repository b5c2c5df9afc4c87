"""Runs as they lie on disk: found, read, followed, compared key by key, removed. Users: the commands of ``cli``."""
