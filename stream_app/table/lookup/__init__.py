"""Finds the rows of a bucket by their keys, for compactions and writers. See `lookup_reader`."""
