"""The tables of a job, as `[table]` or `[sync]` names them. Start with `job_tables`."""
