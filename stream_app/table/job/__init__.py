"""Keeps a job's state of its tables on the driver. Start with `table_job`."""
