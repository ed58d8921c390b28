"""Keeps, on the driver, a job's state of its tables. Start with `table_job`."""
