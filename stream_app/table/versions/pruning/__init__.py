"""Skips files, partitions and buckets without a matching row. Start with `row_filter`."""
