"""Publishes a set of changes as one snapshot. Start with `file_store_commit`.

A job's commit, `table.job.stream_table_commit`, is above, because it also needs compactions.
"""
