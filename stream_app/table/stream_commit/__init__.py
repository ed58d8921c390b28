"""Commits epochs and compactions of a job to one table. Start with `stream_table_commit`."""
