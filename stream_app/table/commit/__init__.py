"""Publishes a set of changes as one snapshot. Start with `file_store_commit`."""
