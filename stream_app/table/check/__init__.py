"""Whether a table is sound: its metadata, its files and its history. Start with `table_check`."""
