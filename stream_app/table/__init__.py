"""The verbs of a table: write, commit, scan, read. Start with `file_store_table`."""
