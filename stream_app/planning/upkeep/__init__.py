"""Decides which versions and files may be deleted, and which tags are due; see `expire_range`."""
