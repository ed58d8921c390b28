"""Gives a job the commits, compactions and upkeep of one table.

Start with `table_job`. `stream_table_commit` commits its epochs and compactions.
"""
