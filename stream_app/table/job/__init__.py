"""A job's hold on its tables, on the driver. Start with `table_job`."""
