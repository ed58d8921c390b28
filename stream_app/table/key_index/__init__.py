"""An index on local disk that finds a key's row in any partition, and places rows by it.

Start with `key_placement`.
"""
