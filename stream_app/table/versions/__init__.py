"""Finds versions of a table, and the files of a version. Start with `file_store_scan`."""
