"""Rows of a bucket by key, without a read of the whole bucket. Start with `key_lookup`."""
