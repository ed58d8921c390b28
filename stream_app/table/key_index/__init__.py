"""Where a key's row is, in any partition: an index on local disk, and what rows do by it.

Start with `key_placement`.
"""
