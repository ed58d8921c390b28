"""Turns a set of changes into one snapshot. Start with `file_store_commit`."""
