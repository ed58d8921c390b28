"""Reads and remembers the renames that statements of the source make."""
