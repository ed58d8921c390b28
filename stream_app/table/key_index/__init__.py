"""Finds a key's row in any partition by an index on local disk, and places new rows by it.

Start with `key_placement`.
"""
