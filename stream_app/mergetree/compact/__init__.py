"""Decides which sorted runs are merged, and merges them. Start with `universal_compaction`."""
