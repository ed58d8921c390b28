"""Reads a table's changes as they are committed. Start with `changelog_follow`."""
