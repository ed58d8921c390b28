"""Gives partitions another number of buckets. Start with `rescale`."""
