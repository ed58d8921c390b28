"""Decisions about the index that finds a key's row in any partition."""
