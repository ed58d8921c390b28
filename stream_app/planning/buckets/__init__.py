"""Decides which buckets take keys, and whether their number fits. Start with `open_buckets`."""
