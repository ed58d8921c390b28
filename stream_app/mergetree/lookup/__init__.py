"""Looks up a bucket's rows by key, without reading the whole bucket. Start with `key_lookup`."""
