"""Compacts append tables by joining small files. Start with `append_coordinator`."""
