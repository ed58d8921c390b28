"""Changes the number of buckets of partitions. Start with `rescale`."""
