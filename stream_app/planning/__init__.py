"""Pure decisions about tables, and about the tables of a job. Start with `conflict_detection`."""
