"""Decides how the index works that finds a key's row in any partition."""
