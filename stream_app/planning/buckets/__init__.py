"""Decides which buckets get new keys, and whether their number fits. Start with `open_buckets`."""
