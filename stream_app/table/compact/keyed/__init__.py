"""Compacts buckets of tables with a primary key. Start with `keyed_compaction`."""
