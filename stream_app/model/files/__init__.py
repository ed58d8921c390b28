"""Describes the files of a table, and how buckets change. Start with `data_file_meta`."""
