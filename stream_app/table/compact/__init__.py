"""Decides which buckets are compacted and when, and takes the results. Start with `coordinator`."""
