"""Writes a task's rows into files, bucket by bucket. Start with `table_write`."""
