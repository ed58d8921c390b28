"""From a set of changes to one snapshot. Start with `file_store_commit`."""
