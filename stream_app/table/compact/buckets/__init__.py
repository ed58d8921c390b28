"""Compacts bucket by bucket, with a primary key or without. Start with `bucket_coordinator`."""
