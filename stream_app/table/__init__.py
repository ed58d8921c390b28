"""Writes, commits, scans and reads tables. Start with `file_store_table`."""
