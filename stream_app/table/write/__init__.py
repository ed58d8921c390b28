"""Writers of one task: rows of one bucket into files. Start with `table_write`."""
