"""Writes the rows of one task into files, bucket by bucket. Start with `table_write`."""
