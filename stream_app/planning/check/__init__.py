"""Decides whether versions, buckets and counts of a table obey the format's rules."""
