"""Gives a job the commits, compactions and upkeep of one table. Start with `table_job`."""
