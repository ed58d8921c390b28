"""Which sorted runs are merged, and how. Start with `universal_compaction`."""
